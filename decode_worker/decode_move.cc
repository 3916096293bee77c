#include "decode_worker/decode_move.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kvrelay::decode_worker {
namespace {

// A link that is slower than the stream grows would never be done: after this many tokens the stream waits for it.
constexpr uint32_t kPatienceTokens = 128;

}  // namespace

void RecentTokens::Add(const worker::v1::Selected& token) {
  if (tokens_.size() == kKept) tokens_.pop_front();
  tokens_.push_back(token);
  tokens_.back().clear_run();  // the worker that made the run reports it
}

std::optional<std::vector<worker::v1::Selected>> RecentTokens::From(uint32_t index) const {
  if (tokens_.empty() || index < tokens_.front().index() || index > tokens_.back().index()) return std::nullopt;
  return std::vector<worker::v1::Selected>(tokens_.begin() + (index - tokens_.front().index()), tokens_.end());
}

DecodeMove::DecodeMove(std::shared_ptr<kv_wire::KvSender> sender, uint32_t target_tokens,
                       std::shared_ptr<const kv::SequenceCache> cache)
    : sender_(std::move(sender)),
      target_tokens_(target_tokens),
      small_backlog_(static_cast<size_t>(cache->layout().layers)) {}

bool DecodeMove::OnSelected(uint32_t history, int kv_ready) {
  sender_->OnPositions(kv_ready);  // first, for what is queued here is part of the backlog
  ++tokens_since_;
  if (step_ != Step::kCopying || history <= target_tokens_) return false;
  if (sender_->backlog() > small_backlog_ && tokens_since_ < kPatienceTokens) return false;
  step_ = Step::kHolding;
  return true;
}

absl::StatusOr<worker::v1::KvCommit> DecodeMove::Commit(const RecentTokens& recent, uint32_t prompt_length,
                                                        const worker::v1::Positions& positions) {
  auto tokens = recent.From(target_tokens_ - prompt_length);
  if (!tokens) {
    return absl::FailedPreconditionError(absl::StrCat("the target was reserved with ", target_tokens_,
                                                      " tokens, more than ", RecentTokens::kKept,
                                                      " before the stream paused"));
  }
  step_ = Step::kCommitting;
  selected_ = static_cast<uint32_t>(tokens->size());
  worker::v1::KvCommit commit;
  for (worker::v1::Selected& token : *tokens) *commit.add_selected() = std::move(token);
  *commit.mutable_positions() = positions;
  return commit;
}

}  // namespace kvrelay::decode_worker
