#include "common/kv/sequence_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace kvrelay::kv {
namespace {

constexpr int kGroup = 16;  // positions that lie side by side in K

// One head's keys at block slots [slot, slot + positions): the block's [4][head_dim][16] against rows of head_dim
// values that are `stride` elements apart. Elements are moved by memcpy: the wire side has no alignment.
template <typename Element, bool kOut, typename Block, typename Wire>
void CopyKeys(Block* block, int head_dim, int slot, int positions, Wire* wire, size_t stride) {
  for (int p = 0; p < positions;) {
    const int lane = (slot + p) % kGroup;
    const int lanes = std::min(kGroup - lane, positions - p);
    auto* group = block + static_cast<size_t>((slot + p) / kGroup) * head_dim * kGroup * sizeof(Element);
    for (int l = 0; l < lanes; ++l) {
      auto* column = group + (lane + l) * sizeof(Element);
      auto* row = wire + (p + l) * stride * sizeof(Element);
      for (int d = 0; d < head_dim; ++d) {
        if constexpr (kOut)
          std::memcpy(row + d * sizeof(Element), column + d * kGroup * sizeof(Element), sizeof(Element));
        else
          std::memcpy(column + d * kGroup * sizeof(Element), row + d * sizeof(Element), sizeof(Element));
      }
    }
    p += lanes;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<SequenceCache>> SequenceCache::Reserve(BlockPool* pool, int positions) {
  KV_CHECK(positions >= 1, "a sequence has at least one position");
  KV_ASSIGN_OR_RETURN(std::vector<BlockId> ids, pool->Take((positions - 1) / kBlockPositions + 1));
  return std::shared_ptr<SequenceCache>(new SequenceCache(pool, positions, std::move(ids)));
}

SequenceCache::SequenceCache(BlockPool* pool, int positions, std::vector<BlockId> ids)
    : pool_(pool), capacity_(positions), ids_(std::move(ids)) {
  blocks_.reserve(ids_.size());
  for (BlockId id : ids_) blocks_.push_back(pool_->Data(id));
}

SequenceCache::~SequenceCache() { pool_->Return(ids_); }

void SequenceCache::Publish(int count) {
  const int ready = kv_ready_.load(std::memory_order_relaxed);
  KV_CHECK(count >= 0 && count <= capacity_ - ready, "published positions are within the capacity");
  kv_ready_.store(ready + count, std::memory_order_release);
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
  const size_t head_row = shape.head_dim * shape.ElementBytes();
  const size_t row = shape.kv_heads * head_row;  // keys, or values, of one position
  for (int head = 0; head < shape.kv_heads; ++head) {
    std::byte* k = block + shape.KOffset(layer, head);
    Wire* keys = wire + head * head_row;
    if (shape.type == KvType::kF16)
      CopyKeys<uint16_t, kOut>(k, shape.head_dim, slot, positions, keys, row / sizeof(uint16_t));
    else
      CopyKeys<uint32_t, kOut>(k, shape.head_dim, slot, positions, keys, row / sizeof(uint32_t));

    std::byte* v = block + shape.VOffset(layer, head) + slot * head_row;
    Wire* values = keys + positions * row;
    for (int p = 0; p < positions; ++p) {
      if constexpr (kOut)
        std::memcpy(values + p * row, v + p * head_row, head_row);
      else
        std::memcpy(v + p * head_row, values + p * row, head_row);
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
