// The float micro-kernel, for weights, keys and values alike: a tile of rows times columns of 16 lanes, each output one
// fma chain over ascending k. However rows and columns are grouped into tiles, a chain is the same.
//
// Written once against the vector types of one instruction set.
#pragma once

#include "common/kernels/kernel_types.h"
#include KVRELAY_VECTOR_HEADER

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

struct ElementF32 {
  static constexpr size_t kBytes = 4;
  static constexpr bool kConverted = false;
  static KVRELAY_INLINE F32x16 Load(const std::byte* p) { return Load16(reinterpret_cast<const float*>(p)); }
};
struct ElementF16 {
  static constexpr size_t kBytes = 2;
  static constexpr bool kConverted = true;
  static KVRELAY_INLINE F32x16 Load(const std::byte* p) { return LoadF16x16(p); }
};
struct ElementBf16 {
  static constexpr size_t kBytes = 2;
  static constexpr bool kConverted = true;
  static KVRELAY_INLINE F32x16 Load(const std::byte* p) { return LoadBf16x16(p); }
};

// Columns that a tile of `rows` rows takes at once, to have enough independent chains.
template <class Element>
constexpr int FloatTileColumns(int rows) {
  const int columns = (Element::kConverted ? kConvertedTileVectors : kFloatTileRows) / rows;
  return columns >= 4 ? 4 : columns >= 2 ? 2 : 1;
}

// Operand b: element (k, column c) are the 16 values at b + k * k_bytes + c * column_bytes. Operand a: a[r][k].
template <class Element, int kRows, int kColumns>
KVRELAY_INLINE void FmaTile(const float* const* a, const std::byte* b, size_t k_bytes, size_t column_bytes, int count,
                            F32x16 (&acc)[kRows][kColumns]) {
  const float* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = a[r];
  for (int k = 0; k < count; ++k) {
    F32x16 right[kColumns];
    KVRELAY_UNROLL(4)
    for (int c = 0; c < kColumns; ++c) right[c] = Element::Load(b + c * column_bytes);
    KVRELAY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const F32x16 left = Set16(rows[r][k]);
      KVRELAY_UNROLL(4)
      for (int c = 0; c < kColumns; ++c) acc[r][c] = Fma(left, right[c], acc[r][c]);
    }
    b += k_bytes;
  }
}

// One kRows x kColumns tile of a matrix product on packed units.
template <class Element, int kRows, int kColumns>
KVRELAY_NOINLINE void FloatMatmulTile(const float* const* x, const std::byte* unit, size_t unit_bytes, int inputs,
                                      float* out, int out_stride, bool add) {
  F32x16 acc[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) acc[r][c] = Zero16();
  }
  FmaTile<Element>(x, unit, kUnitRows * Element::kBytes, unit_bytes, inputs, acc);
  for (int r = 0; r < kRows; ++r) {
    float* out_row = out + static_cast<size_t>(r) * out_stride;
    for (int c = 0; c < kColumns; ++c) {
      float* p = out_row + c * kUnitRows;
      Store(p, add ? Add(Load16(p), acc[r][c]) : acc[r][c]);
    }
  }
}

struct FloatMatmulArgs {
  const std::byte* units;
  size_t unit_bytes;
  int inputs;
  const float* x;
  int x_stride;
  float* out;
  int out_stride;
  bool add;
};

// All units of the range for kRows rows from `row` on.
template <class Element, int kRows>
void FloatMatmulRows(const FloatMatmulArgs& m, int unit_begin, int unit_end, int row) {
  const float* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = m.x + static_cast<size_t>(row + r) * m.x_stride;
  float* out = m.out + static_cast<size_t>(row) * m.out_stride;
  constexpr int kColumns = FloatTileColumns<Element>(kRows);
  int unit = unit_begin;
  for (; unit + kColumns <= unit_end; unit += kColumns) {
    FloatMatmulTile<Element, kRows, kColumns>(x, m.units + unit * m.unit_bytes, m.unit_bytes, m.inputs,
                                              out + unit * kUnitRows, m.out_stride, m.add);
  }
  for (; unit < unit_end; ++unit) {
    FloatMatmulTile<Element, kRows, 1>(x, m.units + unit * m.unit_bytes, m.unit_bytes, m.inputs, out + unit * kUnitRows,
                                       m.out_stride, m.add);
  }
}

// Rows that remain after whole tiles: one tile of exactly that many.
template <class Element, int kRows>
void FloatMatmulLast(const FloatMatmulArgs& m, int unit_begin, int unit_end, int row, int left) {
  if constexpr (kRows > 0) {
    if (left == kRows) return FloatMatmulRows<Element, kRows>(m, unit_begin, unit_end, row);
    FloatMatmulLast<Element, kRows - 1>(m, unit_begin, unit_end, row, left);
  }
}

// Units are taken a few at a time, so that their weights stay in the second-level cache while all rows pass.
template <class Element>
void FloatMatmul(const std::byte* units, size_t unit_bytes, int unit_begin, int unit_end, int inputs, const float* x,
                 int x_stride, int rows, float* out, int out_stride, bool add) {
  constexpr int kUnitsAtOnce = 4;
  const FloatMatmulArgs m{units, unit_bytes, inputs, x, x_stride, out, out_stride, add};
  for (int begin = unit_begin; begin < unit_end; begin += kUnitsAtOnce) {
    const int end = begin + kUnitsAtOnce < unit_end ? begin + kUnitsAtOnce : unit_end;
    int row = 0;
    for (; row + kFloatTileRows <= rows; row += kFloatTileRows) {
      FloatMatmulRows<Element, kFloatTileRows>(m, begin, end, row);
    }
    FloatMatmulLast<Element, kFloatTileRows - 1>(m, begin, end, row, rows - row);
  }
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
