// A live move of one stream, as its source sees it. Keys and values of the past never change, so full blocks are pushed
// while the stream goes on; it pauses only for the last block.
//
// Steps:
//   copying     decoding goes on; blocks are queued as they fill.
//                 little is left to send, and a token was selected that the target does not know -> holding
//   holding     the engine was asked to pause the session at the end of its step. Paused -> committing
//   committing  the last block and the commit, with the tokens selected since the target's reservation, are on the way.
// The receipt ends the move well, an error of the link badly; the flow then ends the stream here, or lets it go on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/engine/session.h"
#include "common/kv_wire/kv_sender.h"
#include "kvrelay/worker/v1/decode.pb.h"

namespace kvrelay::decode_worker {

// The tokens selected last, as they were told, for a target that was reserved before them. Not thread-safe.
class RecentTokens {
 public:
  // A target is reserved at most this many tokens before the move begins: seconds of decoding.
  static constexpr size_t kKept = 256;

  void Add(const worker::v1::Selected& token);
  // All from token number `index` (from 0, of the request) on; nothing if the first of them is not kept any more, or
  // none was selected yet.
  std::optional<std::vector<worker::v1::Selected>> From(uint32_t index) const;

 private:
  std::deque<worker::v1::Selected> tokens_;
};

// Not thread-safe but for its sender: the flow's lock guards it.
class DecodeMove {
 public:
  // `target_tokens`: prompt and history of the target's reservation. `cache`: of the session that moves.
  DecodeMove(std::shared_ptr<kv_wire::KvSender> sender, uint32_t target_tokens,
             std::shared_ptr<const kv::SequenceCache> cache);

  // A token was selected: `history` tokens are there now, prompt included, and KV of `kv_ready` positions, which goes
  // on its way. True once: the session shall pause. Of the compute thread.
  bool OnSelected(uint32_t history, int kv_ready);
  // Paused. The commit, or why there can be none.
  absl::StatusOr<worker::v1::KvCommit> Commit(const RecentTokens& recent, uint32_t prompt_length,
                                              const worker::v1::Positions& positions);
  // Whether the session was asked to pause.
  bool pauses() const { return step_ != Step::kCopying; }
  bool committed() const { return step_ == Step::kCommitting; }
  const std::shared_ptr<kv_wire::KvSender>& sender() const { return sender_; }
  // Tokens that went with the commit.
  uint32_t selected() const { return selected_; }

 private:
  enum class Step { kCopying, kHolding, kCommitting };

  const std::shared_ptr<kv_wire::KvSender> sender_;
  const uint32_t target_tokens_;
  const size_t small_backlog_;  // frames: one block
  uint32_t tokens_since_ = 0;
  uint32_t selected_ = 0;
  Step step_ = Step::kCopying;
};

}  // namespace kvrelay::decode_worker
