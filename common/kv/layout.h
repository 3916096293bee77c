// How keys and values lie in memory. A block holds 64 consecutive positions of all layers:
//   block = layer*    layer = K V    K = kv_head*    V = kv_head*
//   K of a head: [4][head_dim][16], groups of 16 positions transposed     V of a head: [64][head_dim]
// There is no place for Q: an earlier query is never used again.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"

namespace kvrelay::kv {

using kernels::kBlockPositions;
using kernels::KvType;

std::string_view KvTypeName(KvType type);  // "f16", "f32"
absl::StatusOr<KvType> ParseKvType(std::string_view name);

struct KvLayout {
  int layers;
  int kv_heads;
  int head_dim;
  KvType type;

  size_t ElementBytes() const { return type == KvType::kF16 ? 2 : 4; }
  // K (or V) of one head in one layer of a block.
  size_t HeadBytes() const { return kBlockPositions * head_dim * ElementBytes(); }
  size_t LayerBytes() const { return 2 * kv_heads * HeadBytes(); }
  size_t BlockBytes() const { return layers * LayerBytes(); }
  size_t KOffset(int layer, int head) const { return layer * LayerBytes() + head * HeadBytes(); }
  size_t VOffset(int layer, int head) const { return layer * LayerBytes() + (kv_heads + head) * HeadBytes(); }
  // K and V of one position in one layer: what travels per position and layer.
  size_t PositionBytes() const { return 2 * kv_heads * head_dim * ElementBytes(); }
  bool operator==(const KvLayout&) const = default;
};

// Blocks that `positions` need.
inline int BlocksFor(int positions) { return (positions + kBlockPositions - 1) / kBlockPositions; }

}  // namespace kvrelay::kv
