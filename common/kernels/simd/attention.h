// Attention of the query rows of one KV head over its blocks.
//
// A query is one (row, head); queries are numbered row * group + head, so later ones see at least as many positions.
// They are taken kAttentionQueries at a time; for such a tile each K and V block is converted to f32 once. Within the
// tile they pass in sub-tiles of up to kFloatTileRows that share the loads of keys and values. All queries of a
// sub-tile see the same number of positions of the block: where rows differ (the block that holds their own positions),
// a sub-tile holds heads of one row only. So every query runs exactly the chain that it would run alone.
//
// Written once against the vector types of one instruction set.
#pragma once

#include "common/kernels/attention_scratch.h"
#include "common/kernels/simd/fma_tile.h"
#include "common/kernels/simd/rows.h"

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

constexpr int kGroupPositions = 16;

// Softmax state of one query, within a range or over all ranges so far.
struct SoftmaxState {
  float* max;
  float* sum;
  float* acc;  // [head_dim]
};

// The queries first..end-1 of a task, with their state in scratch.
struct QueryTile {
  const AttentionTask& task;
  const AttentionScratch scratch;
  int first;
  int end;

  int row(int query) const { return query / task.group; }
  int visible(int query) const { return task.first_position + row(query) + 1; }
  const float* q(int query) const {
    return task.q + static_cast<size_t>(row(query)) * task.q_stride + query % task.group * task.head_dim;
  }
  float* out(int query) const {
    return task.out + static_cast<size_t>(row(query)) * task.out_stride + query % task.group * task.head_dim;
  }
  // The first query that sees `position`. Positions before the tile's own are seen by all.
  int FirstSeeing(int position) const {
    const int from_row = position - task.first_position;
    if (from_row <= row(first)) return first;
    const int64_t query = static_cast<int64_t>(from_row) * task.group;
    return query < end ? static_cast<int>(query) : end;
  }
  SoftmaxState range_state(int query) const {
    const int i = query - first;
    return {scratch.max + i, scratch.sum + i, scratch.acc + static_cast<size_t>(i) * task.head_dim};
  }
  SoftmaxState total_state(int query) const {
    const int i = query - first;
    return {scratch.total_max + i, scratch.total_sum + i, scratch.total_acc + static_cast<size_t>(i) * task.head_dim};
  }
};

void Reset(const SoftmaxState& state, int head_dim) {
  *state.max = -__builtin_inff();
  *state.sum = 0.0f;
  for (int i = 0; i < head_dim; i += 16) Store(state.acc + i, Zero16());
}

// scores[r][0..count) of kRows queries; count positions of the block are visible.
template <class Element, int kRows>
void Scores(const QueryTile& tile, const float* const* q, const std::byte* k, int count, float* scores) {
  const int head_dim = tile.task.head_dim;
  const size_t group_bytes = static_cast<size_t>(head_dim) * kGroupPositions * Element::kBytes;
  const F32x16 scale = Set16(tile.task.scale);
  constexpr int kColumns = FloatTileColumns<Element>(kRows);
  const int groups = (count + kGroupPositions - 1) / kGroupPositions;
  const auto run = [&]<int kTaken>(int group) __attribute__((always_inline)) {
    F32x16 acc[kRows][kTaken];
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kTaken; ++c) acc[r][c] = Zero16();
    }
    FmaTile<Element>(q, k + group * group_bytes, kGroupPositions * Element::kBytes, group_bytes, head_dim, acc);
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kTaken; ++c) {
        Store(scores + r * kBlockPositions + (group + c) * kGroupPositions, Mul(acc[r][c], scale));
      }
    }
  };
  int group = 0;
  for (; group + kColumns <= groups; group += kColumns) run.template operator()<kColumns>(group);
  for (; group < groups; ++group) run.template operator()<1>(group);
}

// Turns the first `count` scores into p = exp(s - m') (0 after them, to a whole group), brings max and sum up to date
// and returns c = exp(m - m').
float Softmax(const SoftmaxState& state, float* scores, int count) {
  const F32x16 minus_infinity = Set16(-__builtin_inff());
  F32x16 max = minus_infinity;
  for (int i = 0; i < count; i += 16) max = Max(max, FirstLanes(count - i, Load16(scores + i), minus_infinity));
  const float block_max = MaxLanes(max);
  const float new_max = *state.max > block_max ? *state.max : block_max;
  const float rescale = Exp1(*state.max - new_max);
  F32x16 sum = Zero16();
  for (int i = 0; i < count; i += 16) {
    const F32x16 p = FirstLanes(count - i, Exp16(Sub(Load16(scores + i), Set16(new_max))), Zero16());
    Store(scores + i, p);
    sum = Add(sum, p);
  }
  *state.max = new_max;
  *state.sum = __builtin_fmaf(*state.sum, rescale, SumLanes(sum));
  return rescale;
}

// acc[r] = acc[r] * rescale[r] + the chain of p[r][i] * v[i] over the visible positions.
template <class Element, int kRows>
void Values(const QueryTile& tile, int query, const float* const* p, const float* rescale, const std::byte* v,
            int count) {
  const int head_dim = tile.task.head_dim;
  constexpr int kColumns = FloatTileColumns<Element>(kRows);
  const auto run = [&]<int kTaken>(int column) __attribute__((always_inline)) {
    F32x16 acc[kRows][kTaken];
    for (int r = 0; r < kRows; ++r) {
      const float* from = tile.range_state(query + r).acc + column;
      for (int c = 0; c < kTaken; ++c) acc[r][c] = Mul(Load16(from + c * 16), Set16(rescale[r]));
    }
    FmaTile<Element>(p, v + column * Element::kBytes, head_dim * Element::kBytes, 16 * Element::kBytes, count, acc);
    for (int r = 0; r < kRows; ++r) {
      float* to = tile.range_state(query + r).acc + column;
      for (int c = 0; c < kTaken; ++c) Store(to + c * 16, acc[r][c]);
    }
  };
  int column = 0;
  for (; column + 16 * kColumns <= head_dim; column += 16 * kColumns) run.template operator()<kColumns>(column);
  for (; column < head_dim; column += 16) run.template operator()<1>(column);
}

// One block for the queries query..query + kRows - 1, all of which see `count` of its positions.
template <class Element, int kRows>
void BlockSubTile(const QueryTile& tile, int query, const std::byte* k, const std::byte* v, int count) {
  const float* q[kRows];
  const float* p[kRows];
  float rescale[kRows];
  float* scores = tile.scratch.scores;
  for (int r = 0; r < kRows; ++r) {
    q[r] = tile.q(query + r);
    p[r] = scores + r * kBlockPositions;
  }
  Scores<Element, kRows>(tile, q, k, count, scores);
  for (int r = 0; r < kRows; ++r) {
    rescale[r] = Softmax(tile.range_state(query + r), scores + r * kBlockPositions, count);
  }
  Values<Element, kRows>(tile, query, p, rescale, v, count);
}

template <class Element, int kRows>
void BlockLast(const QueryTile& tile, int query, int left, const std::byte* k, const std::byte* v, int count) {
  if constexpr (kRows > 0) {
    if (left == kRows) return BlockSubTile<Element, kRows>(tile, query, k, v, count);
    BlockLast<Element, kRows - 1>(tile, query, left, k, v, count);
  }
}

// The queries begin..end-1, all of which see `count` positions of the block.
template <class Element>
void BlockQueries(const QueryTile& tile, int begin, int end, const std::byte* k, const std::byte* v, int count) {
  for (; begin + kFloatTileRows <= end; begin += kFloatTileRows) {
    BlockSubTile<Element, kFloatTileRows>(tile, begin, k, v, count);
  }
  BlockLast<Element, kFloatTileRows - 1>(tile, begin, end - begin, k, v, count);
}

// All queries of the tile from `begin` on over block `block`, which each of them sees at least in part.
template <class Element>
void BlockTile(const QueryTile& tile, int begin, int block, const std::byte* k, const std::byte* v) {
  const int block_begin = block * kBlockPositions;
  const int whole = tile.FirstSeeing(block_begin + kBlockPositions - 1);
  while (begin < whole) {
    int row_end = (tile.row(begin) + 1) * tile.task.group;
    if (row_end > whole) row_end = whole;
    BlockQueries<Element>(tile, begin, row_end, k, v, tile.visible(begin) - block_begin);
    begin = row_end;
  }
  BlockQueries<Element>(tile, begin, tile.end, k, v, kBlockPositions);
}

template <class Element>
void Convert(const std::byte* from, int count, float* out) {
  for (int i = 0; i < count; i += 16) Store(out + i, Element::Load(from + i * Element::kBytes));
}

// The first `groups` groups of 16 keys. Each product q * scale is exact.
void ConvertInt8Keys(const std::byte* k, int groups, int head_dim, float* out) {
  const std::byte* scales = k + static_cast<size_t>(kBlockPositions) * head_dim;
  for (int i = 0; i < groups * head_dim; i += kKvScaleDims) {
    const F32x16 scale = LoadF16x16(scales);
    scales += kGroupPositions * sizeof(uint16_t);
    for (int d = 0; d < kKvScaleDims; ++d) {
      Store(out, Mul(ToFloat(LoadI8x16(k)), scale));
      k += kGroupPositions;
      out += kGroupPositions;
    }
  }
}

// The first `count` values.
void ConvertInt8Values(const std::byte* v, int count, int head_dim, float* out) {
  float scales[kBlockPositions * 256 / kKvScaleDims];
  const int blocks = count * head_dim / kKvScaleDims;
  Convert<ElementF16>(v + static_cast<size_t>(kBlockPositions) * head_dim, blocks, scales);  // and some after them
  for (int b = 0; b < blocks; ++b) {
    const F32x16 scale = Set16(scales[b]);
    for (int i = b * kKvScaleDims; i < (b + 1) * kKvScaleDims; i += 16) {
      Store(out + i, Mul(ToFloat(LoadI8x16(v + i)), scale));
    }
  }
}

// The keys and values of the first `count` positions of a block to f32, keys in whole groups.
void ConvertBlock(const AttentionTask& task, int block, int count, const AttentionScratch& scratch) {
  const int groups = (count + kGroupPositions - 1) / kGroupPositions;
  const std::byte* k = task.k_blocks[block];
  const std::byte* v = task.v_blocks[block];
  if (task.type == KvType::kInt8) {
    ConvertInt8Keys(k, groups, task.head_dim, scratch.k);
    ConvertInt8Values(v, count, task.head_dim, scratch.v);
  } else if (task.type == KvType::kBf16) {
    Convert<ElementBf16>(k, groups * kGroupPositions * task.head_dim, scratch.k);
    Convert<ElementBf16>(v, count * task.head_dim, scratch.v);
  } else {
    Convert<ElementF16>(k, groups * kGroupPositions * task.head_dim, scratch.k);
    Convert<ElementF16>(v, count * task.head_dim, scratch.v);
  }
}

// Reads the block in its own type if that serves few queries, else in f32, converted once. An int8 block is always
// converted: its product per value is as much work inside a tile as before it. (On AVX2, 3 heads of 64, one row from
// the second-level cache: 40 GFLOP/s in int8, 55 in f16, 54 in bf16; from 2 rows on all are within 10 percent. With a
// single head int8 is at half the rate of f16.)
void BlockAnyType(const QueryTile& tile, int begin, int block) {
  const AttentionTask& task = tile.task;
  const std::byte* k = task.k_blocks[block];
  const std::byte* v = task.v_blocks[block];
  const bool few = tile.end - begin <= 2 * kFloatTileRows;
  if (task.type == KvType::kF32) return BlockTile<ElementF32>(tile, begin, block, k, v);
  if (task.type == KvType::kF16 && few) return BlockTile<ElementF16>(tile, begin, block, k, v);
  if (task.type == KvType::kBf16 && few) return BlockTile<ElementBf16>(tile, begin, block, k, v);
  const int count = tile.visible(tile.end - 1) - block * kBlockPositions;
  ConvertBlock(task, block, count < kBlockPositions ? count : kBlockPositions, tile.scratch);
  BlockTile<ElementF32>(tile, begin, block, reinterpret_cast<const std::byte*>(tile.scratch.k),
                        reinterpret_cast<const std::byte*>(tile.scratch.v));
}

// Folds the finished range of a query into its total.
void FoldRange(const SoftmaxState& range, const SoftmaxState& total, int head_dim) {
  const float new_max = *total.max > *range.max ? *total.max : *range.max;
  const float total_scale = Exp1(*total.max - new_max);
  const float range_scale = Exp1(*range.max - new_max);
  *total.sum = __builtin_fmaf(*total.sum, total_scale, *range.sum * range_scale);
  *total.max = new_max;
  for (int i = 0; i < head_dim; i += 16) {
    const F32x16 addend = Mul(Load16(range.acc + i), Set16(range_scale));
    Store(total.acc + i, Fma(Load16(total.acc + i), Set16(total_scale), addend));
  }
}

void AttendTile(const QueryTile& tile) {
  const int head_dim = tile.task.head_dim;
  const int positions = tile.visible(tile.end - 1);
  for (int query = tile.first; query < tile.end; ++query) Reset(tile.total_state(query), head_dim);
  for (int range_begin = 0; range_begin < positions; range_begin += kRangePositions) {
    const int range_end = range_begin + kRangePositions < positions ? range_begin + kRangePositions : positions;
    const int seeing = tile.FirstSeeing(range_begin);
    for (int query = seeing; query < tile.end; ++query) Reset(tile.range_state(query), head_dim);
    for (int begin = range_begin; begin < range_end; begin += kBlockPositions) {
      BlockAnyType(tile, tile.FirstSeeing(begin), begin / kBlockPositions);
    }
    for (int query = seeing; query < tile.end; ++query) {
      FoldRange(tile.range_state(query), tile.total_state(query), head_dim);
    }
  }
  for (int query = tile.first; query < tile.end; ++query) {
    const SoftmaxState total = tile.total_state(query);
    const F32x16 sum = Set16(*total.sum);
    for (int i = 0; i < head_dim; i += 16) Store(tile.out(query) + i, Div(Load16(total.acc + i), sum));
  }
}

void Attention(const AttentionTask& task) {
  const int queries = task.rows * task.group;
  const AttentionScratch scratch = DivideAttentionScratch(task.scratch, task.head_dim);
  for (int first = 0; first < queries; first += kAttentionQueries) {
    const int end = first + kAttentionQueries < queries ? first + kAttentionQueries : queries;
    AttendTile(QueryTile{task, scratch, first, end});
  }
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
