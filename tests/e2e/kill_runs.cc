#include "tests/e2e/kill_runs.h"

#include <signal.h>

#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"

namespace kvrelay::e2e {
namespace {

// One greedy, one sampled.
std::vector<v1::GenerateRequest> Requests(uint32_t tokens) {
  std::vector<v1::GenerateRequest> requests = {TextRequest("Once upon a time", tokens),
                                               TextRequest("The history of the lighthouse began when", tokens)};
  for (v1::GenerateRequest& request : requests) {
    request.set_ignore_eos(true);
    request.set_execution(v1::EXECUTION_SPLIT);
    request.set_logprobs(1);
    request.mutable_sampling()->set_seed(7);
  }
  requests[1].mutable_sampling()->set_temperature(0.9f);
  requests[1].mutable_sampling()->set_top_p(0.95f);
  return requests;
}

class Kills {
 public:
  Kills(const KillOptions& options, const std::function<void(const KillRun&)>& on_run)
      : options_(options), on_run_(on_run), requests_(Requests(options.tokens)), undisturbed_(requests_.size()) {
    std::mt19937_64 random(options.seed);
    for (int i = 0; i < options.times; ++i)
      tokens_.push_back(1 + static_cast<uint32_t>(random() % (options.tokens - 1)));
  }

  absl::StatusOr<int> Run() {
    KV_RETURN_IF_ERROR(cluster_.StartAll(1, options_.at_a_time + 1));
    for (const std::string& name : cluster_.names("decode")) busy_[name];
    Together(static_cast<int>(requests_.size()),
             [this](int i) { undisturbed_[i] = Generate(cluster_.stub(), requests_[i]); });
    for (const Stream& stream : undisturbed_) {
      if (!stream.status.ok()) return absl::InternalError("undisturbed: " + stream.status.error_message());
    }
    Together(options_.at_a_time, [this](int) {
      for (int run = NextRun(); run < options_.times; run = NextRun()) RunOne(run);
    });
    return bad_;
  }

 private:
  static void Together(int count, const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
  }

  int NextRun() {
    std::lock_guard lock(mutex_);
    return next_++;
  }

  void RunOne(int number) {
    KillRun run;
    run.token = tokens_[number];
    const size_t which = number % requests_.size();
    absl::Duration killed;
    std::thread restart;
    const Stream stream = Generate(cluster_.stub(), requests_[which], [&](const Stream& so_far) {
      if (so_far.tokens.size() == run.token && !restart.joinable()) {
        run.worker = so_far.started.placement().decode_instance();
        killed = Clock::Real()->Now();
        // In a thread of its own: the stream is to be read on meanwhile.
        restart = std::thread([this, &run] { KillAndRestart(&run); });
      } else if (so_far.tokens.size() == run.token + 1 && run.gap == absl::ZeroDuration()) {
        run.gap = Clock::Real()->Now() - killed;
      }
    });
    if (restart.joinable()) restart.join();
    run.equal = stream.status.ok() && SameOutput(stream, undisturbed_[which]);
    run.replans = stream.finished.replans();
    if (!stream.status.ok()) run.problem = stream.status.error_message();
    std::lock_guard lock(mutex_);
    bad_ += run.good() ? 0 : 1;
    on_run_(run);
  }

  void KillAndRestart(KillRun* run) {
    std::lock_guard lock(busy_.at(run->worker));
    const absl::Status status = cluster_.Restart(run->worker, SIGKILL);
    if (!status.ok()) run->problem = status.ToString();
  }

  const KillOptions options_;
  const std::function<void(const KillRun&)>& on_run_;
  const std::vector<v1::GenerateRequest> requests_;
  std::vector<Stream> undisturbed_;  // by request
  std::vector<uint32_t> tokens_;     // k, by run
  Cluster cluster_;
  std::map<std::string, std::mutex> busy_;  // by decode worker: one restart at a time

  std::mutex mutex_;  // guards what follows, and on_run_
  int next_ = 0;
  int bad_ = 0;
};

}  // namespace

absl::StatusOr<int> RunKills(const KillOptions& options, const std::function<void(const KillRun&)>& on_run) {
  return Kills(options, on_run).Run();
}

}  // namespace kvrelay::e2e
