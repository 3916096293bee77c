#include "common/kv/sequence_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace kvrelay::kv {
namespace {

constexpr int kGroup = 16;  // positions that lie side by side in K

// An array that a head has per position, in a block and on the wire: its values, or its scales.
struct Row {
  int count;
  size_t element_bytes;
  size_t bytes() const { return count * element_bytes; }
};

// One head's keys at block slots [slot, slot + positions): the block's [4][count][16] against rows of `count` elements
// that are `stride` bytes apart. Elements are moved by memcpy: the wire side has no alignment.
template <typename Element, bool kOut, typename Block, typename Wire>
void CopyKeys(Block* block, int count, int slot, int positions, Wire* wire, size_t stride) {
  for (int p = 0; p < positions;) {
    const int lane = (slot + p) % kGroup;
    const int lanes = std::min(kGroup - lane, positions - p);
    auto* group = block + static_cast<size_t>((slot + p) / kGroup) * count * kGroup * sizeof(Element);
    for (int l = 0; l < lanes; ++l) {
      auto* column = group + (lane + l) * sizeof(Element);
      auto* row = wire + (p + l) * stride;
      for (int i = 0; i < count; ++i) {
        if constexpr (kOut)
          std::memcpy(row + i * sizeof(Element), column + i * kGroup * sizeof(Element), sizeof(Element));
        else
          std::memcpy(column + i * kGroup * sizeof(Element), row + i * sizeof(Element), sizeof(Element));
      }
    }
    p += lanes;
  }
}

template <bool kOut, typename Block, typename Wire>
void CopyKeys(Block* block, const Row& row, int slot, int positions, Wire* wire, size_t stride) {
  if (row.element_bytes == 1) return CopyKeys<uint8_t, kOut>(block, row.count, slot, positions, wire, stride);
  if (row.element_bytes == 2) return CopyKeys<uint16_t, kOut>(block, row.count, slot, positions, wire, stride);
  return CopyKeys<uint32_t, kOut>(block, row.count, slot, positions, wire, stride);
}

// One head's values at slots of the block's [64][count].
template <bool kOut, typename Block, typename Wire>
void CopyValues(Block* block, const Row& row, int slot, int positions, Wire* wire, size_t stride) {
  block += slot * row.bytes();
  for (int p = 0; p < positions; ++p) {
    if constexpr (kOut)
      std::memcpy(wire + p * stride, block + p * row.bytes(), row.bytes());
    else
      std::memcpy(block + p * row.bytes(), wire + p * stride, row.bytes());
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<SequenceCache>> SequenceCache::Reserve(BlockPool* pool, int positions) {
  KV_CHECK(positions >= 1, "a sequence has at least one position");
  KV_ASSIGN_OR_RETURN(std::vector<BlockId> ids, pool->Take(BlocksFor(positions)));
  return std::shared_ptr<SequenceCache>(new SequenceCache(pool, positions, {.blocks = std::move(ids)}, std::nullopt));
}

absl::StatusOr<std::shared_ptr<SequenceCache>> SequenceCache::ReserveShared(BlockPool* pool, int positions,
                                                                            std::string salt,
                                                                            absl::Span<const int32_t> tokens) {
  KV_CHECK(!tokens.empty() && tokens.size() <= static_cast<size_t>(positions), "a sequence has room for its tokens");
  const int most_known = (static_cast<int>(tokens.size()) - 1) / kBlockPositions;
  KV_ASSIGN_OR_RETURN(BlockPool::Taken taken, pool->TakeWithPrefix(BlocksFor(positions), salt, tokens, most_known));
  return std::shared_ptr<SequenceCache>(new SequenceCache(pool, positions, std::move(taken), std::move(salt)));
}

SequenceCache::SequenceCache(BlockPool* pool, int positions, BlockPool::Taken taken, std::optional<std::string> salt)
    : pool_(pool),
      capacity_(positions),
      reused_(taken.known * kBlockPositions),
      salt_(std::move(salt)),
      ids_(std::move(taken.blocks)),
      named_(taken.known),
      node_(taken.node),
      kv_ready_(reused_) {
  blocks_.reserve(ids_.size());
  for (BlockId id : ids_) blocks_.push_back(pool_->Data(id));
}

SequenceCache::~SequenceCache() { pool_->Return(ids_); }

void SequenceCache::Publish(int count) {
  const int ready = kv_ready_.load(std::memory_order_relaxed);
  KV_CHECK(count >= 0 && count <= capacity_ - ready, "published positions are within the capacity");
  kv_ready_.store(ready + count, std::memory_order_release);
}

void SequenceCache::Clear() {
  KV_CHECK(reused_ == 0, "what is shared is not forgotten");
  kv_ready_.store(0, std::memory_order_release);
}

void SequenceCache::NameBlocks(absl::Span<const int32_t> tokens) {
  if (!salt_) return;
  const int full = kv_ready_.load(std::memory_order_relaxed) / kBlockPositions;
  for (; named_ < full; ++named_)
    node_ = pool_->Name(ids_[named_], node_, *salt_, tokens.subspan(named_ * kBlockPositions, kBlockPositions));
}

void SequenceCache::CheckSpan(int layer, int first_position, int positions, size_t bytes) const {
  KV_CHECK(layer >= 0 && layer < layout().layers, "the layer exists");
  KV_CHECK(
      first_position >= 0 && positions >= 1 && first_position < capacity_ && positions <= capacity_ - first_position,
      "positions are within the capacity");
  KV_CHECK(first_position % kBlockPositions + positions <= kBlockPositions, "positions share a block");
  KV_CHECK(bytes == positions * layout().PositionBytes(), "the wire form has the size of its positions");
}

template <bool kOut, typename Wire>
void SequenceCache::Copy(int layer, int first_position, int positions, Wire* wire) const {
  const KvLayout& shape = layout();
  std::byte* block = blocks_[first_position / kBlockPositions];
  const int slot = first_position % kBlockPositions;
  const size_t stride = shape.kv_heads * shape.RowBytes();  // keys, or values, of one position
  const bool scaled = shape.type == KvType::kInt8;
  const Row values{shape.head_dim, scaled ? 1 : shape.RowBytes() / shape.head_dim};
  const Row scales{scaled ? shape.head_dim / kernels::kKvScaleDims : 0, sizeof(uint16_t)};
  for (int head = 0; head < shape.kv_heads; ++head) {
    std::byte* k = block + shape.KOffset(layer, head);
    std::byte* v = block + shape.VOffset(layer, head);
    Wire* keys = wire + head * shape.RowBytes();
    for (const Row& row : {values, scales}) {
      CopyKeys<kOut>(k, row, slot, positions, keys, stride);
      CopyValues<kOut>(v, row, slot, positions, keys + positions * stride, stride);
      k += kBlockPositions * row.bytes();
      v += kBlockPositions * row.bytes();
      keys += row.bytes();
    }
  }
}

void SequenceCache::CopyOut(int layer, int first_position, int positions, absl::Span<std::byte> bytes) const {
  CheckSpan(layer, first_position, positions, bytes.size());
  Copy<true>(layer, first_position, positions, bytes.data());
}

void SequenceCache::CopyIn(int layer, int first_position, int positions, absl::Span<const std::byte> bytes) {
  CheckSpan(layer, first_position, positions, bytes.size());
  Copy<false>(layer, first_position, positions, bytes.data());
}

}  // namespace kvrelay::kv
