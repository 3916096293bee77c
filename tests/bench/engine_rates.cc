#include "tests/bench/engine_rates.h"

#include <algorithm>
#include <iostream>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "common/base/clock.h"

namespace kvrelay::bench {
namespace {

using engine::SelectedToken;
using engine::SessionSpec;

SessionSpec Spec(const engine::Engine& engine, int prompt, uint32_t max_tokens, int seed) {
  SessionSpec spec;
  const int vocabulary = engine.model().config().vocabulary;
  for (int i = 0; i < prompt; ++i)
    spec.tokens.push_back(static_cast<int32_t>((i * 7919u + seed * 104729u) % vocabulary));
  spec.prompt_length = prompt;
  spec.end_rule.max_tokens = max_tokens;
  return spec;
}

// Notes when each token came.
class Timer final : public engine::SessionListener {
 public:
  explicit Timer(absl::BlockingCounter* ended) : ended_(*ended) {}
  void OnSelected(const SelectedToken& token) override {
    times.push_back(Clock::Real()->Now());
    first_run = token.index == 0 ? token.run.duration : first_run;
  }
  void OnEnded(const absl::Status& status, sampling::EndReason, const engine::PositionCounts&) override {
    if (!status.ok()) std::cerr << "session failed: " << status << std::endl;
    ended_.DecrementCount();
  }
  std::vector<absl::Duration> times;
  absl::Duration first_run;

 private:
  absl::BlockingCounter& ended_;
};

// Runs them together; empty if there is no room.
std::vector<std::shared_ptr<Timer>> RunAll(engine::Engine& engine, std::vector<SessionSpec> specs) {
  absl::BlockingCounter ended(static_cast<int>(specs.size()));
  std::vector<std::shared_ptr<engine::Session>> sessions;
  for (SessionSpec& spec : specs) {
    auto session = engine.Reserve(std::move(spec));
    if (!session.ok()) {
      std::cerr << session.status() << std::endl;
      return {};
    }
    sessions.push_back(*std::move(session));
  }
  std::vector<std::shared_ptr<Timer>> timers;
  for (auto& session : sessions) {
    timers.push_back(std::make_shared<Timer>(&ended));
    engine.Start(std::move(session), timers.back());
  }
  ended.Wait();
  return timers;
}

}  // namespace

double PrefillRate(engine::Engine& engine, int tokens, int rounds) {
  std::vector<double> rates;
  for (int i = 0; i <= rounds; ++i) {
    SessionSpec spec = Spec(engine, tokens, 1, i);
    spec.stop_after_first = true;
    const auto timers = RunAll(engine, {std::move(spec)});
    if (timers.empty()) return 0;
    if (i > 0) rates.push_back(tokens / absl::ToDoubleSeconds(timers[0]->first_run));  // the first one warms up
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

double DecodeRate(engine::Engine& engine, int batch, int cached, int steps) {
  std::vector<SessionSpec> specs;
  for (int i = 0; i < batch; ++i) specs.push_back(Spec(engine, cached, steps + 1, i));
  const auto timers = RunAll(engine, std::move(specs));
  if (timers.empty()) return 0;
  // From the moment that all stream until the first one ends.
  absl::Duration begin = absl::ZeroDuration(), end = absl::InfiniteDuration();
  for (const auto& timer : timers)
    begin = std::max(begin, timer->times.front()), end = std::min(end, timer->times.back());
  long tokens = 0;
  for (const auto& timer : timers)
    tokens += std::count_if(timer->times.begin(), timer->times.end(),
                            [&](absl::Duration t) { return t > begin && t <= end; });
  return tokens / absl::ToDoubleSeconds(end - begin);
}

}  // namespace kvrelay::bench
