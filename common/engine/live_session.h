// A session inside the compute loop: its history, where it stands, and its counts. Owned by the loop alone.
#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/engine/draft.h"
#include "common/engine/session.h"
#include "common/model/forward.h"
#include "common/sampling/sequence_sampler.h"

namespace kvrelay::engine {

class LiveSession {
 public:
  LiveSession(std::shared_ptr<Session> session, std::shared_ptr<SessionListener> listener);

  const Session& session() const { return *session_; }
  SessionListener& listener() { return *listener_; }
  const std::shared_ptr<SessionListener>& shared_listener() const { return listener_; }
  const PositionCounts& counts() const { return counts_; }
  // Counts once it has ended, perhaps in the middle of a run: without a cache nothing is kept of that either.
  PositionCounts EndCounts() const;
  // Prompt and all selected tokens.
  const std::vector<int32_t>& history() const { return history_; }
  bool queued() const { return queued_; }
  // A held session takes part in no step.
  bool held() const { return held_; }
  void set_held(bool held) { held_ = held; }
  // Input positions that the current run still has to compute; at least 1.
  int PendingRows() const { return static_cast<int>(history_.size()) - session_->cache()->kv_ready(); }
  bool InPrompt() const { return PendingRows() > 1 || queued_; }

  // Guesses tokens for the next step to check behind the input that it waits for, `limit` at most; how many there are.
  // REQUIRES: PendingRows() == 1.
  int Draft(int limit);
  // The next `rows` inputs, and the guesses. REQUIRES: 1 <= rows <= PendingRows().
  model::Chunk MakeChunk(int rows);
  // Notes the beginning of a step with `step_rows` rows in all.
  void BeginStep(absl::Duration now, int step_rows);
  // Takes over what Forward counted.
  void Count(const model::Chunk& chunk, absl::Duration now);
  // Ends the run: chooses the next token from logits, extends the history, and accounts for it. `scores` is workspace
  // for all sessions of the loop.
  absl::StatusOr<SelectedToken> Select(absl::Span<const float> logits, absl::Duration now, std::vector<float>* scores);
  // Whether the token just selected was guessed: then its row, the next of the step, is the run that follows, and ends
  // with the logits that it has. Wrong guesses are counted, and gone, with the selection before.
  bool TakeGuess(absl::Duration now);

 private:
  // The guesses from the next on were wrong, or are of no use.
  void RejectGuesses();
  // Prompt and the tokens selected before this session runs.
  static std::vector<int32_t> HistoryAtStart(const Session& session);
  // Full blocks of the cache are open to other sessions from now on.
  void ShareBlocks();

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<SessionListener> listener_;
  std::vector<int32_t> history_;  // prompt and all selected tokens
  Drafter drafter_;
  std::vector<int32_t> inputs_;  // of a step with guesses that are not settled: the pending input, then they
  size_t next_guess_ = 1;        // in inputs_, the first that is not settled
  size_t usable_guesses_ = 0;    // behind the input
  sampling::SequenceSampler sampler_;
  PositionCounts counts_;
  RunRecord run_;
  absl::Duration run_began_;  // clock time; run_.start counts from the reservation
  absl::Duration step_began_;
  bool run_started_ = false;
  uint32_t step_rows_ = 0;
  bool queued_ = true;
  bool held_ = false;
  uint32_t computed_before_ = 0;  // positions below this were computed by an earlier run
};

}  // namespace kvrelay::engine
