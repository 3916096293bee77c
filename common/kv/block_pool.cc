#include "common/kv/block_pool.h"

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
    : layout_(layout), total_(blocks), memory_(std::move(memory)), referenced_(blocks, false) {
  // Taken from the back: low ids first, and a block returned last, whose memory is warm, goes out first.
  free_.reserve(blocks);
  for (int id = blocks - 1; id >= 0; --id) free_.push_back(id);
}

int BlockPool::referenced() const {
  std::lock_guard lock(mutex_);
  return total_ - static_cast<int>(free_.size());
}

absl::StatusOr<std::vector<BlockId>> BlockPool::Take(int count) {
  KV_CHECK(count >= 0, "a number of blocks is not negative");
  std::lock_guard lock(mutex_);
  if (static_cast<size_t>(count) > free_.size())
    return absl::ResourceExhaustedError(
        absl::StrCat("need ", count, " KV blocks, ", free_.size(), " of ", total_, " are free"));
  std::vector<BlockId> taken(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  for (BlockId id : taken) referenced_[id] = true;
  return taken;
}

void BlockPool::Return(absl::Span<const BlockId> blocks) {
  std::lock_guard lock(mutex_);
  for (BlockId id : blocks) {
    KV_CHECK(id < referenced_.size() && referenced_[id], "a returned block was taken before");
    referenced_[id] = false;
    free_.push_back(id);
  }
}

std::byte* BlockPool::Data(BlockId block) {
  KV_CHECK(block < static_cast<BlockId>(total_), "the block is one of this pool");
  return memory_.data() + block * layout_.BlockBytes();
}

}  // namespace kvrelay::kv
