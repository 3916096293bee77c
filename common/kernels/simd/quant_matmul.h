// Integer matmul on packed quantized weights. The integer sum of a block is exact, so its order is free; the float sum
// over blocks ascends with the same two operations per block in every tile, so a row's result does not depend on the
// other rows.
//
// Written once against the vector types of one instruction set.
#pragma once

#include "common/kernels/simd/quant_formats.h"

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

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
  BlockRows x{m.x.q + first * kQuantBlock, m.x.sums + first * 2, stride};
  F32x16 acc[kUnits][kRows];
  for (auto& unit_acc : acc) {
    for (auto& value : unit_acc) value = Zero16();
  }
  for (int b = 0; b < blocks; ++b) {
    KVRELAY_UNROLL(4)
    for (int u = 0; u < kUnits; ++u) {
      const std::byte* data = m.units + (unit + u) * m.unit_bytes;
      I32x16 products[kRows];
      Format::template Products<kRows>(data, b, x, products);
      const F32x16 scale = Format::Scale(data, b, blocks);
      KVRELAY_UNROLL(16)
      for (int r = 0; r < kRows; ++r) {
        acc[u][r] = Fma(ToFloat(products[r]), Mul(scale, Set16(d[r * stride])), acc[u][r]);
      }
      if constexpr (Format::kHasMinimum) {
        const F32x16 minimum = Format::Minimum(data, b);
        KVRELAY_UNROLL(16)
        for (int r = 0; r < kRows; ++r) acc[u][r] = Fma(minimum, Set16(d_sum[r * stride]), acc[u][r]);
      }
    }
    x.q += kQuantBlock;
    x.sums += 2;
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

// The rows row..end-1: whole tiles of kRows, then tiles of half as many, and so on. A tile for every number of rows
// that may remain would be faster for a few of them, but is most of what there is to compile.
template <class Format, int kRows>
void QuantMatmulRows(const QuantMatmulArgs& m, int unit, int units, int row, int end) {
  for (; row + kRows <= end; row += kRows) QuantMatmulTiles<Format, kRows>(m, unit, units, row);
  if constexpr (kRows > 1) {
    if (row < end) QuantMatmulRows<Format, kRows / 2>(m, unit, units, row, end);
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
      QuantMatmulRows<Format, kQuantTileRows>(m, unit, taken, panel_begin, panel_end);
    }
  }
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
