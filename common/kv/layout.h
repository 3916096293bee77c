// How keys and values lie in memory. A block holds 64 consecutive positions of all layers:
//   block = layer*    layer = K V    K = kv_head*    V = kv_head*
//   K of a head: [4][head_dim][16], groups of 16 positions transposed     V of a head: [64][head_dim]
//   int8: both are followed by their f16 scales, [4][head_dim/32][16] and [64][head_dim/32]
// There is no place for Q: an earlier query is never used again.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"

namespace kvrelay::kv {

using kernels::kAllKvTypes;
using kernels::kBlockPositions;
using kernels::KvType;

std::string_view KvTypeName(KvType type);  // "f16", "f32", "bf16", "int8"
absl::StatusOr<KvType> ParseKvType(std::string_view name);

struct KvLayout {
  int layers;
  int kv_heads;
  int head_dim;
  KvType type;

  // K (or V) of one position of one head: its values, then its scales if it has any.
  size_t RowBytes() const { return kernels::KvRowBytes(type, head_dim); }
  // K (or V) of one head in one layer of a block.
  size_t HeadBytes() const { return kBlockPositions * RowBytes(); }
  size_t LayerBytes() const { return 2 * kv_heads * HeadBytes(); }
  size_t BlockBytes() const { return layers * LayerBytes(); }
  size_t KOffset(int layer, int head) const { return layer * LayerBytes() + head * HeadBytes(); }
  size_t VOffset(int layer, int head) const { return layer * LayerBytes() + (kv_heads + head) * HeadBytes(); }
  // K and V of one position in one layer: what travels per position and layer.
  size_t PositionBytes() const { return 2 * kv_heads * RowBytes(); }
  bool operator==(const KvLayout&) const = default;
};

// INVALID_ARGUMENT if heads of this size cannot be cached in this type.
absl::Status CheckKvLayout(const KvLayout& layout);

// Blocks that `positions` need.
inline int BlocksFor(int positions) { return positions / kBlockPositions + (positions % kBlockPositions != 0); }

}  // namespace kvrelay::kv
