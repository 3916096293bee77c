// The KV cache of one request on one worker: room for a fixed number of positions, filled from position 0 up.
//
// Refers to its blocks and returns them when destroyed. Not thread-safe: one owner at a time writes (the receiver until
// its commit, then the compute loop). Positions below kv_ready() never change, so others may read them at any time, and
// other sequences with the same beginning share the blocks that are full.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/kv/block_pool.h"

namespace kvrelay::kv {

class SequenceCache {
 public:
  // Room for `positions` >= 1. RESOURCE_EXHAUSTED if the pool has not enough. `pool` must outlive the cache.
  static absl::StatusOr<std::shared_ptr<SequenceCache>> Reserve(BlockPool* pool, int positions);
  // The same for a sequence that begins with `tokens`: begins with what the pool knows of them under `salt`, whole
  // blocks and never all of the tokens, so that the last one is always computed. NameBlocks() tells the pool more.
  static absl::StatusOr<std::shared_ptr<SequenceCache>> ReserveShared(BlockPool* pool, int positions, std::string salt,
                                                                      absl::Span<const int32_t> tokens);
  ~SequenceCache();
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  const KvLayout& layout() const { return pool_->layout(); }
  int capacity() const { return capacity_; }
  // Positions 0..kv_ready()-1 have keys and values in every layer.
  int kv_ready() const { return kv_ready_.load(std::memory_order_acquire); }
  // Positions that it began with.
  int reused() const { return reused_; }
  // Publishes `count` more positions, or forgets all. REQUIRES: within capacity; nothing was reused if it forgets.
  void Publish(int count);
  void Clear();
  // Lets others share the full blocks below kv_ready(), which hold `tokens`. Of the writer. Nothing happens without
  // ReserveShared().
  void NameBlocks(absl::Span<const int32_t> tokens);

  // Keys or values of the block that holds positions 64*index.. for one layer and head.
  std::byte* K(int index, int layer, int head) { return blocks_[index] + layout().KOffset(layer, head); }
  std::byte* V(int index, int layer, int head) { return blocks_[index] + layout().VOffset(layer, head); }

  // Copies `positions` positions of one layer, all inside one block, from or to the position-major wire form:
  // keys of each position in turn (all KV heads, each with its scales if it has any), then values likewise. REQUIRES:
  // bytes.size() == positions * PositionBytes().
  void CopyOut(int layer, int first_position, int positions, absl::Span<std::byte> bytes) const;
  void CopyIn(int layer, int first_position, int positions, absl::Span<const std::byte> bytes);

 private:
  SequenceCache(BlockPool* pool, int positions, BlockPool::Taken taken, std::optional<std::string> salt);

  // CHECKs the preconditions of both copies.
  void CheckSpan(int layer, int first_position, int positions, size_t bytes) const;
  template <bool kOut, typename Wire>
  void Copy(int layer, int first_position, int positions, Wire* wire) const;

  BlockPool* const pool_;
  const int capacity_;
  const int reused_;
  const std::optional<std::string> salt_;  // none: not shared
  const std::vector<BlockId> ids_;
  std::vector<std::byte*> blocks_;
  int named_;               // blocks that the pool knows
  PrefixIndex::Node node_;  // of the last of them
  std::atomic<int> kv_ready_ = 0;
};

}  // namespace kvrelay::kv
