#include "common/engine/live_session.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace kvrelay::engine {

LiveSession::LiveSession(std::shared_ptr<Session> session, std::shared_ptr<SessionListener> listener)
    : session_(std::move(session)),
      listener_(std::move(listener)),
      history_(HistoryAtStart(*session_)),
      sampler_(&session_->spec(), history_, session_->spec().prompt_length) {
  const auto ready = static_cast<uint32_t>(session_->cache()->kv_ready());
  counts_.reused = static_cast<uint32_t>(session_->cache()->reused());
  if (session_->spec().source == KvSource::kReceived) {
    KV_CHECK(!session_->received_selected().empty(), "a received session has its next input");
    KV_CHECK(ready == history_.size() - 1, "a received session has the KV of all before its input");
    counts_.received = ready - counts_.reused;
  } else {
    KV_CHECK(ready == counts_.reused, "nothing is computed before the start");
  }
  counts_.kv_ready = ready;
  run_.first_position = ready;
  ShareBlocks();
}

std::vector<int32_t> LiveSession::HistoryAtStart(const Session& session) {
  std::vector<int32_t> history = session.spec().tokens;
  const std::vector<int32_t>& received = session.received_selected();
  history.insert(history.end(), received.begin(), received.end());
  return history;
}

int LiveSession::Draft(int limit) {
  const SessionSpec& spec = session_->spec();
  if (spec.source == KvSource::kNoCache || spec.stop_after_first) return 0;
  const int selected = static_cast<int>(history_.size() - spec.prompt_length);
  // The last token that may be selected needs no input behind it.
  const int useful = static_cast<int>(spec.end_rule.max_tokens) - selected - 1;
  const std::vector<int32_t> guesses = drafter_.Guess(history_, std::min(limit, useful));
  if (guesses.empty()) return 0;
  inputs_.assign(1, history_.back());
  inputs_.insert(inputs_.end(), guesses.begin(), guesses.end());
  next_guess_ = 1;
  return static_cast<int>(guesses.size());
}

model::Chunk LiveSession::MakeChunk(int rows) {
  const int first = session_->cache()->kv_ready();
  if (!inputs_.empty()) {
    return {.cache = session_->cache().get(),
            .tokens = inputs_,
            .first_position = first,
            .logits_wanted = static_cast<int>(inputs_.size()),
            .drafts = static_cast<int>(inputs_.size()) - 1,
            .error = absl::OkStatus()};
  }
  return {.cache = session_->cache().get(),
          .tokens = absl::MakeConstSpan(history_).subspan(first, rows),
          .first_position = first,
          .logits_wanted = first + rows == static_cast<int>(history_.size()) ? 1 : 0,
          .error = absl::OkStatus()};
}

void LiveSession::BeginStep(absl::Duration now, int step_rows) {
  queued_ = false;
  step_rows_ = static_cast<uint32_t>(step_rows);
  step_began_ = now;
  if (!run_started_) {
    run_started_ = true;
    run_began_ = now;
    run_.start = now - session_->reserved_at();
  }
  run_.rows_in_step_max = std::max(run_.rows_in_step_max, step_rows_);
}

void LiveSession::Count(const model::Chunk& chunk, absl::Duration now) {
  // Guesses are counted when they are settled.
  const uint32_t own = chunk.computed - chunk.drafts;
  const uint32_t first = chunk.first_position, end = first + own;
  const uint32_t again = std::min(end, computed_before_) - std::min(first, computed_before_);
  usable_guesses_ = chunk.usable_drafts;
  counts_.computed += own;
  counts_.recomputed += again;
  counts_.kv_ready += chunk.appended;
  run_.end_position = end;
  run_.computed += own - again;
  run_.recomputed += again;
  run_.appended += chunk.appended;
  run_.positions_read = std::max(run_.positions_read, chunk.positions_read - chunk.drafts);
  run_.attention_pairs += chunk.attention_pairs;
  for (int i = 0; i < chunk.drafts; ++i) run_.attention_pairs -= end + i + 1;
  // Runs of one step, as all tokens behind the prompt are, need no list.
  if ((chunk.logits_wanted == 0 || !run_.chunks.empty()) && run_.chunks.size() < RunRecord::kChunksMax)
    run_.chunks.push_back({first, end, step_began_ - session_->reserved_at(), now - step_began_});
  if (chunk.error.ok()) ShareBlocks();
}

void LiveSession::ShareBlocks() {
  if (session_->spec().source != KvSource::kNoCache) session_->cache()->NameBlocks(history_);
}

PositionCounts LiveSession::EndCounts() const {
  PositionCounts counts = counts_;
  if (session_->spec().source == KvSource::kNoCache) counts.discarded += std::exchange(counts.kv_ready, 0);
  return counts;
}

absl::StatusOr<SelectedToken> LiveSession::Select(absl::Span<const float> logits, absl::Duration now,
                                                  std::vector<float>* scores) {
  const SessionSpec& spec = session_->spec();
  const uint32_t index = sampler_.next_index();
  KV_ASSIGN_OR_RETURN(sampling::Selection selection, sampler_.Select(logits, scores));
  computed_before_ = std::max(computed_before_, run_.end_position);
  history_.push_back(selection.token);
  const sampling::EndReason end = sampling::EndsRequest(spec.end_rule, index + 1, selection.token);
  const bool guessed = end == sampling::EndReason::kNone && !inputs_.empty() && next_guess_ <= usable_guesses_ &&
                       inputs_[next_guess_] == selection.token;
  if (!guessed) RejectGuesses();
  if (spec.source == KvSource::kNoCache) {
    counts_.discarded += counts_.kv_ready;
    counts_.kv_ready = 0;
    session_->cache()->Clear();
  }
  KV_CHECK(counts_.kv_ready == counts_.reused + counts_.received + counts_.computed - counts_.discarded,
           "every position is accounted for");
  KV_CHECK(static_cast<int>(counts_.kv_ready) == session_->cache()->kv_ready(), "the cache holds what is counted");
  KV_CHECK(spec.source == KvSource::kNoCache || history_.size() - counts_.kv_ready == 1,
           "the token selected last is the only one without KV");
  run_.duration = now - run_began_;
  SelectedToken token{.index = index, .selection = std::move(selection), .end = end, .counts = counts_, .run = run_};
  run_ = RunRecord();
  run_.first_position = counts_.kv_ready;
  run_started_ = false;
  return token;
}

bool LiveSession::TakeGuess(absl::Duration now) {
  if (inputs_.empty()) return false;
  const uint32_t position = counts_.kv_ready++;
  session_->cache()->Publish(1);
  ++counts_.computed;
  ++counts_.drafted;
  ++counts_.accepted;
  run_ = {.first_position = position,
          .end_position = position + 1,
          .computed = 1,
          .appended = 1,
          .positions_read = position + 1,
          .attention_pairs = position + 1,
          .rows_in_step_max = step_rows_,
          .start = now - session_->reserved_at(),
          .chunks = {}};
  run_began_ = now;
  ++next_guess_;
  ShareBlocks();
  return true;
}

void LiveSession::RejectGuesses() {
  if (inputs_.empty()) return;
  const auto wrong = static_cast<uint32_t>(inputs_.size() - next_guess_);
  counts_.computed += wrong;
  counts_.drafted += wrong;
  counts_.discarded += wrong;
  run_.rejected = wrong;
  drafter_.Learn(static_cast<int>(inputs_.size()) - 1, static_cast<int>(next_guess_) - 1);
  inputs_.clear();
}

}  // namespace kvrelay::engine
