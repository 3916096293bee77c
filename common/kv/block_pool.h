// The KV memory of a worker: a fixed number of blocks, taken and returned by id. A block is free, referenced by one or
// more sequences, or cached: nobody refers to it, its content is known by its tokens, and it is given up when room is
// needed.
//
// Thread-safe. All-or-nothing: taking never holds some blocks while it waits for others; it never waits.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/kv/layout.h"
#include "common/kv/prefix_index.h"
#include "common/tensor/huge_buffer.h"

namespace kvrelay::kv {

class BlockPool {
 public:
  // REQUIRES: blocks >= 1. INVALID_ARGUMENT as CheckKvLayout; RESOURCE_EXHAUSTED if the memory is not there.
  static absl::StatusOr<std::unique_ptr<BlockPool>> Create(const KvLayout& layout, int blocks);

  const KvLayout& layout() const { return layout_; }
  int total() const { return total_; }
  int referenced() const;
  int cached() const;
  // Tokens that sequences which may share blocks were taken for so far, and the part of them whose KV was found.
  struct PrefixCounts {
    uint64_t asked = 0;
    uint64_t found = 0;
  };
  PrefixCounts prefix_counts() const;

  // References to `count` blocks, or to none. RESOURCE_EXHAUSTED with the figures if fewer are free or cached.
  absl::StatusOr<std::vector<BlockId>> Take(int count);
  // The same, but begins with blocks that are known to hold the leading tokens: the first `known` of `blocks`, shared
  // with others and never to be written. At most `most_known` of them.
  struct Taken {
    std::vector<BlockId> blocks;
    int known = 0;
    PrefixIndex::Node node = PrefixIndex::kRoot;  // of the last known block
  };
  absl::StatusOr<Taken> TakeWithPrefix(int count, absl::string_view salt, absl::Span<const int32_t> tokens,
                                       int most_known);
  // Gives up a reference to each block. CHECKs that each is referenced. Of blocks that become cached, the last ones are
  // given up first when room is needed.
  void Return(absl::Span<const BlockId> blocks);
  // Says that a referenced block holds the KV of these kBlockPositions tokens, after those of `parent`, and will not
  // change. Returns its node; if another block is known for the same, that one's.
  PrefixIndex::Node Name(BlockId block, PrefixIndex::Node parent, absl::string_view salt,
                         absl::Span<const int32_t> tokens);
  // Memory of a block; whoever refers to it may use it until it returns the block.
  std::byte* Data(BlockId block);

 private:
  BlockPool(const KvLayout& layout, int blocks, HugeBuffer memory);
  // A block that nobody refers to and nobody knows. REQUIRES: mutex_ is held, and there is a free or cached one.
  BlockId TakeOne();

  const KvLayout layout_;
  const int total_;
  HugeBuffer memory_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<BlockId> free_;
  std::vector<uint32_t> references_;  // by block
  PrefixIndex index_;
  PrefixCounts prefix_counts_;
};

}  // namespace kvrelay::kv
