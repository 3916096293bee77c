// Integer matmul on packed quantized weights. The integer sum of a block is exact, so its order is free; the float sum
// over blocks ascends with the same two operations per block in every tile, so a row's result does not depend on the
// other rows.
//
// Written once against the vector types of one instruction set. A "vector" below is the
// kLanes outputs that one integer dot product gives: a unit, or half of one.
#pragma once

#include "common/kernels/kernel_types.h"
#include "common/kernels/packed_layout.h"
#include KVRELAY_VECTOR_HEADER

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

constexpr int kVectorsPerUnit = kUnitRows / kLanes;

// d, and m if there is one, of one block for the outputs of a vector.
struct Scales {
  F32v d;
  F32v m;
};

struct FormatQ4_1 {
  static constexpr bool kHasMinimum = true;
  using Weights = Q4Weights;
  static KVRELAY_INLINE Weights Load(const std::byte* unit, int block, int part) {
    return LoadQ4(unit + block * packed::kQ4_1BlockBytes + part * kLanes * 4);
  }
  static KVRELAY_INLINE Scales LoadScales(const std::byte* unit, int block, int, int part) {
    const std::byte* scales = unit + block * packed::kQ4_1BlockBytes + packed::kQ4_1QuantBytes + part * kLanes * 2;
    return {LoadF16V(scales), LoadF16V(scales + packed::kScaleBytes)};
  }
};

struct FormatQ8_0 {
  static constexpr bool kHasMinimum = false;
  using Weights = Q8Weights;
  static KVRELAY_INLINE Weights Load(const std::byte* unit, int block, int part) {
    return LoadQ8(unit + block * packed::kQ8_0QuantBytes + part * kLanes * 4);
  }
  static KVRELAY_INLINE Scales LoadScales(const std::byte* unit, int block, int blocks, int part) {
    const std::byte* scales = unit + blocks * packed::kQ8_0QuantBytes + block * packed::kScaleBytes;
    return {LoadF16V(scales + part * kLanes * 2), ZeroV()};
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

// kRows rows from `row` on times kVectors vectors from `vector` on.
template <class Format, int kRows, int kVectors>
void QuantMatmulTile(const QuantMatmulArgs& m, int vector, int row) {
  const int blocks = m.inputs / kQuantBlock;
  const size_t first_block = static_cast<size_t>(row) * blocks;
  const int8_t* q = m.x.q + first_block * kQuantBlock;
  const float* d = m.x.d + first_block;
  const float* d_sum = m.x.d_sum + first_block;
  const int32_t* sum = m.x.sum + first_block;
  F32v acc[kVectors][kRows];
  for (auto& vector_acc : acc) {
    for (auto& value : vector_acc) value = ZeroV();
  }
  for (int b = 0; b < blocks; ++b) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* unit = m.units + (vector + v) / kVectorsPerUnit * m.unit_bytes;
      const int part = (vector + v) % kVectorsPerUnit;
      const auto weights = Format::Load(unit, b, part);
      const Scales scales = Format::LoadScales(unit, b, blocks, part);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const size_t at = static_cast<size_t>(r) * blocks + b;
        const F32v product = ToFloat(Dot(weights, q + at * kQuantBlock, sum[at]));
        acc[v][r] = Fma(product, Mul(scales.d, SetV(d[at])), acc[v][r]);
        if constexpr (Format::kHasMinimum) acc[v][r] = Fma(scales.m, SetV(d_sum[at]), acc[v][r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* p = m.out + static_cast<size_t>(row + r) * m.out_stride + (vector + v) * kLanes;
      Store(p, m.add ? Add(LoadV(p), acc[v][r]) : acc[v][r]);
    }
  }
}

// One row takes several vectors at once: their sums are independent chains.
constexpr int QuantTileVectors(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }

template <class Format, int kRows>
KVRELAY_INLINE void QuantMatmulTiles(const QuantMatmulArgs& m, int vector, int vectors, int row) {
  if constexpr (QuantTileVectors(kRows) > 1) {
    if (vectors == QuantTileVectors(kRows)) {
      return QuantMatmulTile<Format, kRows, QuantTileVectors(kRows)>(m, vector, row);
    }
  }
  for (int v = 0; v < vectors; ++v) QuantMatmulTile<Format, kRows, 1>(m, vector + v, row);
}

// Rows that remain after whole tiles: one tile of exactly that many.
template <class Format, int kRows>
void QuantMatmulLast(const QuantMatmulArgs& m, int vector, int vectors, int row, int left) {
  if constexpr (kRows > 0) {
    if (left == kRows) return QuantMatmulTiles<Format, kRows>(m, vector, vectors, row);
    QuantMatmulLast<Format, kRows - 1>(m, vector, vectors, row, left);
  }
}

// Rows pass in panels that stay in the second-level cache; within a panel, the weights of a few vectors stay in the
// first.
template <class Format>
void QuantMatmul(const std::byte* units, size_t unit_bytes, int unit_begin, int unit_end, int inputs,
                 const QuantizedRows& x, int rows, float* out, int out_stride, bool add) {
  constexpr int kPanelBytes = 192 << 10;
  const int panel =
      kPanelBytes / inputs > kQuantTileRows ? kPanelBytes / inputs / kQuantTileRows * kQuantTileRows : kQuantTileRows;
  const QuantMatmulArgs m{units, unit_bytes, inputs, x, out, out_stride, add};
  const int vector_end = unit_end * kVectorsPerUnit;
  for (int panel_begin = 0; panel_begin < rows; panel_begin += panel) {
    const int panel_end = panel_begin + panel < rows ? panel_begin + panel : rows;
    const int at_once = QuantTileVectors(panel_end - panel_begin);
    for (int vector = unit_begin * kVectorsPerUnit; vector < vector_end; vector += at_once) {
      const int vectors = vector_end - vector < at_once ? vector_end - vector : at_once;
      int row = panel_begin;
      for (; row + kQuantTileRows <= panel_end; row += kQuantTileRows) {
        QuantMatmulTiles<Format, kQuantTileRows>(m, vector, vectors, row);
      }
      QuantMatmulLast<Format, kQuantTileRows - 1>(m, vector, vectors, row, panel_end - row);
    }
  }
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
