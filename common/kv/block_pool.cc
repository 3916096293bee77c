#include "common/kv/block_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace kvrelay::kv {

absl::StatusOr<std::unique_ptr<BlockPool>> BlockPool::Create(const KvLayout& layout, int blocks) {
  KV_CHECK(blocks >= 1, "a pool has at least one block");
  KV_RETURN_IF_ERROR(CheckKvLayout(layout));
  if (static_cast<size_t>(blocks) > std::numeric_limits<size_t>::max() / 2 / layout.BlockBytes())
    return absl::ResourceExhaustedError(
        absl::StrCat(blocks, " KV blocks of ", layout.BlockBytes(), " bytes exceed the address space"));
  KV_ASSIGN_OR_RETURN(HugeBuffer memory, HugeBuffer::Allocate(blocks * layout.BlockBytes()));
  return std::unique_ptr<BlockPool>(new BlockPool(layout, blocks, std::move(memory)));
}

BlockPool::BlockPool(const KvLayout& layout, int blocks, HugeBuffer memory)
    : layout_(layout), total_(blocks), memory_(std::move(memory)), references_(blocks, 0), index_(blocks) {
  // Taken from the back: low ids first, and a block returned last, whose memory is warm, goes out first.
  free_.reserve(blocks);
  for (int id = blocks - 1; id >= 0; --id) free_.push_back(id);
}

int BlockPool::referenced() const {
  std::lock_guard lock(mutex_);
  return total_ - static_cast<int>(free_.size()) - index_.idle();
}

int BlockPool::cached() const {
  std::lock_guard lock(mutex_);
  return index_.idle();
}

BlockPool::PrefixCounts BlockPool::prefix_counts() const {
  std::lock_guard lock(mutex_);
  return prefix_counts_;
}

absl::StatusOr<std::vector<BlockId>> BlockPool::Take(int count) {
  KV_ASSIGN_OR_RETURN(Taken taken, TakeWithPrefix(count, "", {}, 0));
  return std::move(taken.blocks);
}

absl::StatusOr<BlockPool::Taken> BlockPool::TakeWithPrefix(int count, absl::string_view salt,
                                                           absl::Span<const int32_t> tokens, int most_known) {
  KV_CHECK(count >= 0 && most_known >= 0, "a number of blocks is not negative");
  most_known = std::min({most_known, count, static_cast<int>(tokens.size()) / kBlockPositions});
  std::lock_guard lock(mutex_);
  Taken taken;
  taken.blocks.reserve(count);
  int idle_known = 0;  // known blocks that stop being idle
  for (; taken.known < most_known; ++taken.known) {
    const auto found = index_.Find(taken.node, salt, tokens.subspan(taken.known * kBlockPositions, kBlockPositions));
    if (!found) break;
    taken.node = found->node;
    taken.blocks.push_back(found->block);
    idle_known += references_[found->block] == 0;
  }
  const int available = static_cast<int>(free_.size()) + index_.idle() - idle_known;
  if (count - taken.known > available)
    return absl::ResourceExhaustedError(
        absl::StrCat("need ", count - taken.known, " KV blocks, ", available, " of ", total_, " are free"));
  // Known blocks first: while they are idle, they could be given up for the others.
  for (const BlockId id : taken.blocks) {
    if (references_[id]++ == 0) index_.SetBusy(id);
  }
  while (static_cast<int>(taken.blocks.size()) < count) taken.blocks.push_back(TakeOne());
  prefix_counts_.asked += tokens.size();
  prefix_counts_.found += static_cast<uint64_t>(taken.known) * kBlockPositions;
  return taken;
}

BlockId BlockPool::TakeOne() {
  BlockId id;
  if (free_.empty()) {
    id = index_.GiveUp();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  references_[id] = 1;
  return id;
}

void BlockPool::Return(absl::Span<const BlockId> blocks) {
  std::lock_guard lock(mutex_);
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    const BlockId id = *it;
    KV_CHECK(id < references_.size() && references_[id] > 0, "a returned block was taken before");
    if (--references_[id] > 0) continue;
    if (index_.named(id)) {
      index_.SetIdle(id);
    } else {
      free_.push_back(id);
    }
  }
}

PrefixIndex::Node BlockPool::Name(BlockId block, PrefixIndex::Node parent, absl::string_view salt,
                                  absl::Span<const int32_t> tokens) {
  KV_CHECK(tokens.size() == kBlockPositions, "a named block is full");
  std::lock_guard lock(mutex_);
  KV_CHECK(block < references_.size() && references_[block] > 0, "a named block is referenced");
  return index_.Name(parent, salt, tokens, block);
}

std::byte* BlockPool::Data(BlockId block) {
  KV_CHECK(block < static_cast<BlockId>(total_), "the block is one of this pool");
  return memory_.data() + block * layout_.BlockBytes();
}

}  // namespace kvrelay::kv
