// One reservation for the handoff fuzzer: a receiver over a small cache between two others, and an account of its own
// of what may be in that cache, which every step and every byte must agree with.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv/sequence_cache.h"
#include "common/kv_wire/handoff_receiver.h"
#include "kvrelay/worker/v1/kv.pb.h"

namespace kvrelay::fuzz {

// What differs between reservations: positions [first, end) travel, and the header may name any end from `tokens` to
// `end`.
struct SceneShape {
  kv::KvType type;
  int first, tokens, end;
};

// The messages of a sound sender ("a") in attempt 1.
struct SoundHandoff {
  explicit SoundHandoff(const SceneShape& shape);

  const SceneShape shape;
  worker::v1::KvHeader header;
  std::vector<worker::v1::KvFrame> frames;
  worker::v1::KvCommit commit;
};

// The memory of all reservations of one shape, one at a time: room for it between two sequences that it must not touch.
struct Stage {
  explicit Stage(const SceneShape& shape);
  // That the neighbours are as they were.
  void Check() const;

  const SceneShape shape;
  const std::unique_ptr<kv::BlockPool> pool;
  std::shared_ptr<kv::SequenceCache> before, after;
  std::string neighbour;  // bytes of either
};

class HandoffScene {
 public:
  explicit HandoffScene(const Stage* stage);

  // The receiver's methods; each ends the process if the receiver did what it must not.
  void OpenAttempt(uint32_t attempt, const std::string& sender);
  void OnHeader(const worker::v1::KvHeader& header);
  void OnFrame(uint32_t attempt, const worker::v1::KvFrame& frame);
  void OnCommit(uint32_t attempt, const worker::v1::KvCommit& commit);
  void Close();
  // That every byte of the target and of its neighbours is what the account says.
  void CheckBytes() const;

  // The last attempt that was opened.
  uint32_t attempt() const { return attempt_; }
  bool published() const { return published_end_.has_value(); }

 private:
  void CheckReady() const;
  void CheckPublication(const worker::v1::KvCommit& commit, const kv_wire::HandoffReceipt& receipt) const;
  void CheckFrames(int end) const;

  const Stage& stage_;
  const SceneShape shape_;
  const std::shared_ptr<kv::SequenceCache> target_;
  const std::unique_ptr<kv_wire::HandoffReceiver> receiver_;

  // The account. Of the last attempt: its sender, the header and the frames that were accepted.
  std::string bytes_;  // of the target: layer by layer, position by position
  uint32_t attempt_ = 0;
  std::string sender_;
  std::optional<worker::v1::KvHeader> header_;
  std::map<std::pair<uint32_t, uint32_t>, worker::v1::KvFrame> frames_;  // by layer and first position
  std::optional<int> published_end_;
  bool closed_ = false;
};

}  // namespace kvrelay::fuzz
