#include "tests/bench/draft_rates.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace kvrelay::bench {
namespace {

constexpr uint32_t kTokens = 192;
constexpr int kRounds = 5;

constexpr char kText[] =
    "The router sends every prompt to a prefill worker. The prefill worker computes all of its positions at once and "
    "ships their keys and values while the next layer is being computed. The decode worker takes them over, extends "
    "them by one position for each token, and streams the tokens back. When a decode worker is drained, its streams "
    "move to another one: what it holds is pushed ahead, and only the last block waits for the pause.";

class Stream final : public engine::SessionListener {
 public:
  void OnSelected(const engine::SelectedToken& token) override {
    tokens.push_back(token.selection.token);
    if (token.index == 0) began = Clock::Real()->Now();
    ended = Clock::Real()->Now();
  }
  void OnEnded(const absl::Status& s, sampling::EndReason, const engine::PositionCounts& c) override {
    status = s;
    counts = c;
    done.Notify();
  }
  double Rate() const { return (tokens.size() - 1) / absl::ToDoubleSeconds(ended - began); }

  std::vector<int32_t> tokens;
  absl::Duration began, ended;
  absl::Status status;
  engine::PositionCounts counts;
  absl::Notification done;
};

absl::StatusOr<std::shared_ptr<Stream>> Run(engine::Engine& engine, engine::SessionSpec spec) {
  KV_ASSIGN_OR_RETURN(std::shared_ptr<engine::Session> session, engine.Reserve(std::move(spec)));
  auto stream = std::make_shared<Stream>();
  engine.Start(std::move(session), stream);
  stream->done.WaitForNotification();
  KV_RETURN_IF_ERROR(stream->status);
  return stream;
}

struct Ratio {
  double rate;
  engine::PositionCounts counts;
};

absl::StatusOr<Ratio> Compare(engine::Engine& plain, engine::Engine& drafting, const engine::SessionSpec& spec) {
  std::vector<double> without, with;
  engine::PositionCounts counts;
  for (int i = 0; i <= kRounds; ++i) {
    KV_ASSIGN_OR_RETURN(const auto slow, Run(plain, spec));
    KV_ASSIGN_OR_RETURN(const auto fast, Run(drafting, spec));
    if (slow->tokens != fast->tokens) return absl::InternalError("guesses changed the tokens");
    counts = fast->counts;
    if (i == 0) continue;  // warms up
    without.push_back(slow->Rate());
    with.push_back(fast->Rate());
  }
  std::sort(without.begin(), without.end());
  std::sort(with.begin(), with.end());
  return Ratio{with[kRounds / 2] / without[kRounds / 2], counts};
}

engine::SessionSpec Spec(std::vector<int32_t> tokens, float temperature) {
  engine::SessionSpec spec;
  spec.tokens = std::move(tokens);
  spec.prompt_length = static_cast<uint32_t>(spec.tokens.size());
  spec.end_rule.max_tokens = kTokens;
  spec.sampling.temperature = temperature;
  spec.sampling.seed = 1;
  return spec;
}

}  // namespace

absl::StatusOr<DraftRates> MeasureDrafting(engine::Engine& plain, engine::Engine& drafting,
                                           const text::Tokenizer& tokenizer) {
  KV_ASSIGN_OR_RETURN(std::vector<int32_t> text, tokenizer.EncodeText(absl::StrCat(kText, "\n\n", kText, "\n\n")));
  KV_ASSIGN_OR_RETURN(
      std::vector<int32_t> question,
      tokenizer.EncodeChat({{.role = "user", .content = "Tell a long story about a lighthouse keeper and a storm."}}));
  KV_ASSIGN_OR_RETURN(const Ratio copying, Compare(plain, drafting, Spec(std::move(text), 0)));
  KV_ASSIGN_OR_RETURN(const Ratio free_prose, Compare(plain, drafting, Spec(std::move(question), 1)));
  return DraftRates{.copying = copying.rate,
                    .free_prose = free_prose.rate,
                    .copying_made = copying.counts.drafted,
                    .copying_right = copying.counts.accepted,
                    .free_made = free_prose.counts.drafted,
                    .free_right = free_prose.counts.accepted};
}

}  // namespace kvrelay::bench
