// The KV memory of a worker: a fixed number of blocks, taken and returned by id. A block is free or referenced.
//
// Thread-safe. All-or-nothing: Take never holds some blocks while it waits for others; it never waits.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/kv/layout.h"
#include "common/tensor/huge_buffer.h"

namespace kvrelay::kv {

using BlockId = uint32_t;

class BlockPool {
 public:
  // REQUIRES: blocks >= 1. INVALID_ARGUMENT as CheckKvLayout; RESOURCE_EXHAUSTED if the memory is not there.
  static absl::StatusOr<std::unique_ptr<BlockPool>> Create(const KvLayout& layout, int blocks);

  const KvLayout& layout() const { return layout_; }
  int total() const { return total_; }
  int referenced() const;

  // Takes `count` blocks or none. RESOURCE_EXHAUSTED with the figures if fewer are free.
  absl::StatusOr<std::vector<BlockId>> Take(int count);
  // Returns blocks taken before. CHECKs that each is referenced.
  void Return(absl::Span<const BlockId> blocks);
  // Memory of a block; its owner may use it until it returns the block.
  std::byte* Data(BlockId block);

 private:
  BlockPool(const KvLayout& layout, int blocks, HugeBuffer memory);

  const KvLayout layout_;
  const int total_;
  HugeBuffer memory_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<BlockId> free_;
  std::vector<bool> referenced_;
};

}  // namespace kvrelay::kv
