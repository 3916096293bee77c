// How each quantized weight type is read from a unit (packed_layout.h): the exact integer products of a block with rows
// of activations, the scale that multiplies them and, for types with one, the minimum; 16 outputs at once.
//
// Types that count from a middle (Q4_0: q - 8) multiply the unsigned q and take the middle times the sum of the
// activations off; their integer products are still exact. Those of Q6_K carry the two scales of their block: sum of 16
// times s0 plus sum of 16 times s1, at most 2 * 16 * 32 * 127 * 128 < 2^24, which f32 holds exactly too.
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
  const int16_t* sums;
  size_t stride;

  KVRELAY_INLINE size_t q_stride() const { return stride * kQuantBlock; }
  // The two sums of row r's block.
  KVRELAY_INLINE I32x16 Sums(int r) const { return RepeatPair(sums + r * stride * 2); }
};

// The eight vectors of a block's quants: vector j holds the values 4j..4j+3 of each row as unsigned bytes.
template <int kBits>
struct QuantVectors {
  const std::byte* block;

  KVRELAY_INLINE Bytes64 operator()(int j) const {
    const Bytes64 nibbles = LoadBytes64(block + j % 4 * packed::kVectorBytes);
    const Bytes64 low = MoveBits(nibbles, j < 4 ? 0 : -4, 15);
    if constexpr (kBits == 4) return low;
    constexpr int kUpper = kBits - 4;
    const Bytes64 upper = LoadBytes64(block + packed::kNibbleBytes + j * kUpper / 8 * packed::kVectorBytes);
    return Or(low, MoveBits(upper, 4 - j * kUpper % 8, ((1 << kUpper) - 1) << 4));
  }
};

template <int kBits, int kRows>
KVRELAY_INLINE void UnsignedProducts(const std::byte* block, const BlockRows& x, I32x16 (&out)[kRows]) {
  const auto start = [](int) __attribute__((always_inline)) { return SetI(0); };
  Products<(1 << kBits) - 1, kRows>(QuantVectors<kBits>{block}, start, x.q, x.q_stride(), out);
}

// Q4_0, Q5_0.
template <int kBits>
struct FormatMiddle {
  static constexpr bool kHasMinimum = false;
  template <int kRows>
  static KVRELAY_INLINE void Products(const std::byte* unit, int block, const BlockRows& x, I32x16 (&out)[kRows]) {
    constexpr int kMiddle = 1 << (kBits - 1);
    const auto start = [&](int r) __attribute__((always_inline)) { return MulPairs(x.Sums(r), SetPairs(-kMiddle)); };
    KVRELAY_ISA::Products<(1 << kBits) - 1, kRows>(QuantVectors<kBits>{unit + block * packed::QuantBytes(kBits)}, start,
                                                   x.q, x.q_stride(), out);
  }
  static KVRELAY_INLINE F32x16 Scale(const std::byte* unit, int block, int blocks) {
    return LoadF16x16(unit + blocks * packed::QuantBytes(kBits) + block * packed::kScaleBytes);
  }
};

// Q4_1, Q5_1.
template <int kBits>
struct FormatMinimum {
  static constexpr bool kHasMinimum = true;
  static KVRELAY_INLINE const std::byte* At(const std::byte* unit, int block) {
    return unit + block * packed::WithMinimumBytes(kBits);
  }
  template <int kRows>
  static KVRELAY_INLINE void Products(const std::byte* unit, int block, const BlockRows& x, I32x16 (&out)[kRows]) {
    UnsignedProducts<kBits>(At(unit, block), x, out);
  }
  static KVRELAY_INLINE F32x16 Scale(const std::byte* unit, int block, int) {
    return LoadF16x16(At(unit, block) + packed::QuantBytes(kBits));
  }
  static KVRELAY_INLINE F32x16 Minimum(const std::byte* unit, int block) {
    return LoadF16x16(At(unit, block) + packed::QuantBytes(kBits) + packed::kScaleBytes);
  }
};

struct FormatQ8_0 {
  static constexpr bool kHasMinimum = false;
  template <int kRows>
  static KVRELAY_INLINE void Products(const std::byte* unit, int block, const BlockRows& x, I32x16 (&out)[kRows]) {
    const auto sums = [&](int r) __attribute__((always_inline)) { return x.Sums(r); };
    SignedProducts<kRows>(unit + block * packed::kQ8_0QuantBytes, sums, x.q, x.q_stride(), out);
  }
  static KVRELAY_INLINE F32x16 Scale(const std::byte* unit, int block, int blocks) {
    return LoadF16x16(unit + blocks * packed::kQ8_0QuantBytes + block * packed::kScaleBytes);
  }
};

// The parts of the 256 inputs that block `block` of a K-quant lies in.
template <int kBits>
struct SuperBlock {
  const std::byte* base;
  int in_block;

  KVRELAY_INLINE SuperBlock(const std::byte* unit, int block)
      : base(unit + block / static_cast<int>(packed::kSuperBlocks) * packed::SuperBytes(kBits)),
        in_block(block % static_cast<int>(packed::kSuperBlocks)) {}
  KVRELAY_INLINE const std::byte* quants() const { return base + in_block * packed::QuantBytes(kBits); }
  KVRELAY_INLINE const std::byte* scales() const {
    return base + packed::kSuperBlocks * packed::QuantBytes(kBits) + in_block * packed::kScaleBytes;
  }
  KVRELAY_INLINE const std::byte* d() const {
    return base + packed::kSuperBlocks * (packed::QuantBytes(kBits) + packed::kScaleBytes);
  }
};

// Q4_K, Q5_K.
template <int kBits>
struct FormatK {
  static constexpr bool kHasMinimum = true;
  template <int kRows>
  static KVRELAY_INLINE void Products(const std::byte* unit, int block, const BlockRows& x, I32x16 (&out)[kRows]) {
    UnsignedProducts<kBits>(SuperBlock<kBits>(unit, block).quants(), x, out);
  }
  static KVRELAY_INLINE F32x16 Scale(const std::byte* unit, int block, int) {
    const SuperBlock<kBits> super(unit, block);
    return Mul(LoadF16x16(super.d()), ToFloat(LoadU8x16(super.scales())));
  }
  static KVRELAY_INLINE F32x16 Minimum(const std::byte* unit, int block) {
    const SuperBlock<kBits> super(unit, block);
    return Mul(LoadF16x16(super.d() + packed::kScaleBytes), ToFloat(LoadU8x16(super.scales() + kUnitRows)));
  }
};

struct FormatQ6_K {
  static constexpr bool kHasMinimum = false;
  template <int kRows>
  static KVRELAY_INLINE void Products(const std::byte* unit, int block, const BlockRows& x, I32x16 (&out)[kRows]) {
    const SuperBlock<6> super(unit, block);
    const I32x16 scales = LoadI8Pairs(super.scales());
    const auto start = [&](int r) __attribute__((always_inline)) {
      return SubI(SetI(0), ShiftLeft<5>(MulPairs(scales, x.Sums(r))));
    };
    ScaledProducts<kRows>(QuantVectors<6>{super.quants()}, scales, start, x.q, x.q_stride(), out);
  }
  static KVRELAY_INLINE F32x16 Scale(const std::byte* unit, int block, int) {
    return LoadF16x16(SuperBlock<6>(unit, block).d());
  }
};

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
