// Integer matmul on packed quantized weights. The integer sum of a block is exact, so its order is free; the float sum
// over blocks ascends with the same two operations per block in every tile, so a row's result does not depend on the
// other rows.
//
// Written once against the vector types of one instruction set.
#pragma once

#include "common/kernels/kernel_types.h"
#include "common/kernels/packed_layout.h"
#include KVRELAY_VECTOR_HEADER

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

// kRows rows of activations at one block; the distances between rows are counted in blocks.
struct BlockRows {
  const int8_t* q;
  const int32_t* sum;
  size_t stride;
};

// How a weight type is read from a unit: its integer products and its scales, 16 outputs at once.
struct FormatQ4_1 {
  static constexpr bool kHasMinimum = true;
  template <int kRows>
  static KVRELAY_INLINE void Products(const std::byte* unit, int block, const BlockRows& x, I32x16 (&out)[kRows]) {
    ProductsQ4<kRows>(unit + block * packed::kQ4_1BlockBytes, x.q, x.stride * kQuantBlock, out);
  }
  static KVRELAY_INLINE F32x16 Scale(const std::byte* unit, int block, int) {
    return LoadF16x16(unit + block * packed::kQ4_1BlockBytes + packed::kQ4_1QuantBytes);
  }
  static KVRELAY_INLINE F32x16 Minimum(const std::byte* unit, int block) {
    return LoadF16x16(unit + block * packed::kQ4_1BlockBytes + packed::kQ4_1QuantBytes + packed::kScaleBytes);
  }
};

struct FormatQ8_0 {
  static constexpr bool kHasMinimum = false;
  template <int kRows>
  static KVRELAY_INLINE void Products(const std::byte* unit, int block, const BlockRows& x, I32x16 (&out)[kRows]) {
    ProductsQ8<kRows>(unit + block * packed::kQ8_0QuantBytes, x.q, x.stride * kQuantBlock, x.sum, x.stride, out);
  }
  static KVRELAY_INLINE F32x16 Scale(const std::byte* unit, int block, int blocks) {
    return LoadF16x16(unit + blocks * packed::kQ8_0QuantBytes + block * packed::kScaleBytes);
  }
};

struct QuantMatmulArgs {
  const std::byte* units;
  size_t unit_bytes;
  int inputs;
  QuantizedRows x;
  float* out;
  int out_stride;
  bool add;
};

// kRows rows from `row` on times kUnits units from `unit` on.
template <class Format, int kRows, int kUnits>
KVRELAY_NOINLINE void QuantMatmulTile(const QuantMatmulArgs& m, int unit, int row) {
  const int blocks = m.inputs / kQuantBlock;
  const size_t stride = static_cast<size_t>(blocks);
  const size_t first = row * stride;
  const float* d = m.x.d + first;
  const float* d_sum = m.x.d_sum + first;
  BlockRows x{m.x.q + first * kQuantBlock, m.x.sum + first, stride};
  F32x16 acc[kUnits][kRows];
  for (auto& unit_acc : acc) {
    for (auto& value : unit_acc) value = Zero16();
  }
  for (int b = 0; b < blocks; ++b) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnits; ++u) {
      const std::byte* data = m.units + (unit + u) * m.unit_bytes;
      I32x16 products[kRows];
      Format::template Products<kRows>(data, b, x, products);
      const F32x16 scale = Format::Scale(data, b, blocks);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        acc[u][r] = Fma(ToFloat(products[r]), Mul(scale, Set16(d[r * stride])), acc[u][r]);
      }
      if constexpr (Format::kHasMinimum) {
        const F32x16 minimum = Format::Minimum(data, b);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) acc[u][r] = Fma(minimum, Set16(d_sum[r * stride]), acc[u][r]);
      }
    }
    x.q += kQuantBlock;
    ++x.sum;
    ++d;
    ++d_sum;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int u = 0; u < kUnits; ++u) {
      float* p = m.out + static_cast<size_t>(row + r) * m.out_stride + (unit + u) * kUnitRows;
      Store(p, m.add ? Add(Load16(p), acc[u][r]) : acc[u][r]);
    }
  }
}

constexpr int QuantTileUnits(int rows) { return rows == 1 ? kQuantSingleRowUnits : 1; }

template <class Format, int kRows>
KVRELAY_INLINE void QuantMatmulTiles(const QuantMatmulArgs& m, int unit, int units, int row) {
  if constexpr (QuantTileUnits(kRows) > 1) {
    if (units == QuantTileUnits(kRows)) return QuantMatmulTile<Format, kRows, QuantTileUnits(kRows)>(m, unit, row);
  }
  for (int u = 0; u < units; ++u) QuantMatmulTile<Format, kRows, 1>(m, unit + u, row);
}

// Rows that remain after whole tiles: one tile of exactly that many.
template <class Format, int kRows>
void QuantMatmulLast(const QuantMatmulArgs& m, int unit, int units, int row, int left) {
  if constexpr (kRows > 0) {
    if (left == kRows) return QuantMatmulTiles<Format, kRows>(m, unit, units, row);
    QuantMatmulLast<Format, kRows - 1>(m, unit, units, row, left);
  }
}

// Rows pass in panels that stay in the second-level cache; within a panel, a unit's weights stay in the first.
template <class Format>
void QuantMatmul(const std::byte* units, size_t unit_bytes, int unit_begin, int unit_end, int inputs,
                 const QuantizedRows& x, int rows, float* out, int out_stride, bool add) {
  constexpr int kPanelBytes = 192 << 10;
  const int tiles = kPanelBytes / inputs / kQuantTileRows;
  const int panel = (tiles > 0 ? tiles : 1) * kQuantTileRows;
  const QuantMatmulArgs m{units, unit_bytes, inputs, x, out, out_stride, add};
  for (int panel_begin = 0; panel_begin < rows; panel_begin += panel) {
    const int panel_end = rows - panel_begin > panel ? panel_begin + panel : rows;
    const int at_once = QuantTileUnits(panel_end - panel_begin);
    for (int unit = unit_begin; unit < unit_end; unit += at_once) {
      const int taken = unit_end - unit < at_once ? unit_end - unit : at_once;
      int row = panel_begin;
      for (; row + kQuantTileRows <= panel_end; row += kQuantTileRows) {
        QuantMatmulTiles<Format, kQuantTileRows>(m, unit, taken, row);
      }
      QuantMatmulLast<Format, kQuantTileRows - 1>(m, unit, taken, row, panel_end - row);
    }
  }
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
