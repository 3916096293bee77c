// Row-local operations, written once against the vector types of one instruction set.
#pragma once

#include "common/kernels/exp_polynomial.h"
#include "common/kernels/kernel_types.h"
#include KVRELAY_VECTOR_HEADER

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

// The same bits as Exp() of math.h in every lane.
KVRELAY_INLINE F32x16 Exp16(F32x16 x) {
  using P = ExpPolynomial;
  const F32x16 rounded = Fma(x, Set16(P::kLog2E), Set16(P::kRound));
  const F32x16 n = Sub(rounded, Set16(P::kRound));
  F32x16 r = Fma(n, Set16(-P::kLn2High), x);
  r = Fma(n, Set16(-P::kLn2Low), r);
  F32x16 p = Fma(Set16(P::kC6), r, Set16(P::kC5));
  p = Fma(p, r, Set16(P::kC4));
  p = Fma(p, r, Set16(P::kC3));
  p = Fma(p, r, Set16(P::kC2));
  p = Fma(p, r, Set16(1.0f));
  p = Fma(p, r, Set16(1.0f));
  p = Mul(p, FromBits(AddI(ShiftLeft<23>(Bits(rounded)), SetI(P::kOneBits))));
  p = SelectLess(x, Set16(P::kLowest), Zero16(), p);
  return SelectLess(Set16(P::kHighest), x, Set16(__builtin_inff()), p);
}
KVRELAY_INLINE float Exp1(float x) {
  float lanes[16];
  Store(lanes, Exp16(Set16(x)));
  return lanes[0];
}

// The first `lanes` of 16 values; the others are zero. Vectors of a row that is no multiple of 16 long end so.
KVRELAY_INLINE F32x16 LoadFirst(const float* p, int lanes) {
  if (lanes == 16) return Load16(p);
  float padded[16] = {};
  __builtin_memcpy(padded, p, lanes * sizeof(float));
  return Load16(padded);
}
KVRELAY_INLINE void StoreFirst(float* p, int lanes, F32x16 a) {
  if (lanes == 16) return Store(p, a);
  float padded[16];
  Store(padded, a);
  __builtin_memcpy(p, padded, lanes * sizeof(float));
}
KVRELAY_INLINE int LanesAt(int i, int n) { return n - i < 16 ? n - i : 16; }

// The largest magnitude of 32 values. Compared as integers, so that a NaN is the largest instead of vanishing.
KVRELAY_INLINE float MaxMagnitude(F32x16 x0, F32x16 x1) {
  const I32x16 magnitude_bits = SetI(0x7FFFFFFF);
  const int32_t max_bits = MaxLanesI(MaxI(AndI(Bits(x0), magnitude_bits), AndI(Bits(x1), magnitude_bits)));
  float max;
  __builtin_memcpy(&max, &max_bits, sizeof(max));
  return max;
}
KVRELAY_INLINE F32x16 InverseOf(float scale) { return Set16(scale == 0.0f ? 0.0f : 1.0f / scale); }
// x * inverse to the nearest integer, ties to even, in -127..127.
KVRELAY_INLINE I32x16 RoundToI8(F32x16 x, F32x16 inverse) {
  const F32x16 clamped = Min(Max(Mul(x, inverse), Set16(-127.0f)), Set16(127.0f));
  return AddI(Bits(Add(clamped, Set16(ExpPolynomial::kRound))), SetI(-0x4B400000));  // minus the bits of kRound
}

void QuantizeBlock(const float* x, int8_t* q, float* d, float* d_sum, int16_t* sums) {
  const F32x16 x0 = Load16(x);
  const F32x16 x1 = Load16(x + 16);
  float scale = MaxMagnitude(x0, x1) / 127.0f;
  if (scale < __FLT_MIN__) scale = 0.0f;
  const F32x16 inverse = InverseOf(scale);
  const I32x16 q0 = RoundToI8(x0, inverse);
  const I32x16 q1 = RoundToI8(x1, inverse);
  StoreI8(q, q0);
  StoreI8(q + 16, q1);
  const int32_t sum0 = SumLanesI(q0);
  const int32_t sum1 = SumLanesI(q1);
  sums[0] = static_cast<int16_t>(sum0);
  sums[1] = static_cast<int16_t>(sum1);
  *d = scale;
  *d_sum = scale * static_cast<float>(sum0 + sum1);
}

void QuantizeRows(const float* x, int rows, int inputs, const QuantizedRows& out) {
  const size_t blocks = static_cast<size_t>(rows) * (inputs / kQuantBlock);
  for (size_t b = 0; b < blocks; ++b) {
    QuantizeBlock(x + b * kQuantBlock, out.q + b * kQuantBlock, out.d + b, out.d_sum + b, out.sums + 2 * b);
  }
}

void RmsNorm(const float* x, const float* weight, int n, float eps, float* out) {
  F32x16 squares = Zero16();
  for (int i = 0; i < n; i += 16) {
    const F32x16 v = LoadFirst(x + i, LanesAt(i, n));
    squares = Fma(v, v, squares);
  }
  const float mean = SumLanes(squares) / static_cast<float>(n);
  const F32x16 inverse = Set16(1.0f / __builtin_sqrtf(mean + eps));
  for (int i = 0; i < n; i += 16) {
    const int lanes = LanesAt(i, n);
    const F32x16 scaled = Mul(LoadFirst(x + i, lanes), inverse);
    StoreFirst(out + i, lanes, Mul(scaled, LoadFirst(weight + i, lanes)));
  }
}

void SwiGlu(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; i += 16) {
    const int lanes = LanesAt(i, n);
    const F32x16 g = LoadFirst(gate + i, lanes);
    const F32x16 minus_g = FromBits(AddI(Bits(g), SetI(INT32_MIN)));
    const F32x16 silu = Div(g, Add(Set16(1.0f), Exp16(minus_g)));
    StoreFirst(out + i, lanes, Mul(silu, LoadFirst(up + i, lanes)));
  }
}

void ExpScaled(const float* x, int n, float from, float scale, float* out) {
  for (int i = 0; i < n; i += 16) {
    const int lanes = LanesAt(i, n);
    StoreFirst(out + i, lanes, Exp16(Div(Sub(LoadFirst(x + i, lanes), Set16(from)), Set16(scale))));
  }
}

void Rope(float* x, const float* cos, const float* sin, int n) {
  for (int i = 0; i < n / 2; ++i) {
    const float x0 = x[2 * i];
    const float x1 = x[2 * i + 1];
    x[2 * i] = __builtin_fmaf(x0, cos[i], -(x1 * sin[i]));
    x[2 * i + 1] = __builtin_fmaf(x0, sin[i], x1 * cos[i]);
  }
}

// Puts `count` elements of a key and of a value where slot `slot` of a block has them: [4][count][16], transposed, and
// [64][count].
template <class Word>
KVRELAY_INLINE void PutSlot(const Word* k, const Word* v, int count, int slot, std::byte* k_block, std::byte* v_block) {
  std::byte* k_out = k_block + (slot / 16 * static_cast<size_t>(count) * 16 + slot % 16) * sizeof(Word);
  for (int i = 0; i < count; ++i) {
    __builtin_memcpy(k_out + static_cast<size_t>(i) * 16 * sizeof(Word), k + i, sizeof(Word));
  }
  __builtin_memcpy(v_block + static_cast<size_t>(slot) * count * sizeof(Word), v, count * sizeof(Word));
}

// Values are not finite if all exponent bits are set.
template <class Word>
KVRELAY_INLINE bool AllFinite(const Word* values, int count, Word exponent) {
  bool finite = true;
  for (int i = 0; i < count; ++i) finite &= (values[i] & exponent) != exponent;
  return finite;
}

template <class Word>
KVRELAY_INLINE bool PutFloats(const Word* k, const Word* v, Word exponent, int head_dim, int slot, std::byte* k_block,
                              std::byte* v_block) {
  PutSlot(k, v, head_dim, slot, k_block, v_block);
  return AllFinite(k, head_dim, exponent) && AllFinite(v, head_dim, exponent);
}

KVRELAY_INLINE void RoundToBf16(const float* x, int count, uint16_t* out) {
  for (int i = 0; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;  // to nearest even
    const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;                    // rounding could carry it away
    out[i] = static_cast<uint16_t>(nan ? 0x7FC0 : rounded);
  }
}

// The values of one position in int8. What is not finite shows in its scale.
KVRELAY_INLINE void QuantizeHead(const float* x, int head_dim, int8_t* q, uint16_t* scales) {
  const int blocks = head_dim / kKvScaleDims;
  float rounded[16] = {};  // blocks <= 8
  for (int b = 0; b < blocks; ++b) {
    const float* from = x + b * kKvScaleDims;
    rounded[b] = MaxMagnitude(Load16(from), Load16(from + 16)) / 127.0f;
  }
  StoreF16(scales, Load16(rounded));
  // Divided by the scale that will be read, so that its own rounding costs nothing.
  Store(rounded, LoadF16x16(reinterpret_cast<const std::byte*>(scales)));
  for (int b = 0; b < blocks; ++b) {
    const F32x16 inverse = InverseOf(rounded[b]);
    for (int i = b * kKvScaleDims; i < (b + 1) * kKvScaleDims; i += 16) {
      StoreI8(q + i, RoundToI8(Load16(x + i), inverse));
    }
  }
}

bool StoreF32Kv(const float* k, const float* v, int head_dim, int slot, std::byte* k_block, std::byte* v_block) {
  uint32_t k_bits[256], v_bits[256];
  __builtin_memcpy(k_bits, k, head_dim * sizeof(float));
  __builtin_memcpy(v_bits, v, head_dim * sizeof(float));
  return PutFloats<uint32_t>(k_bits, v_bits, 0x7F800000, head_dim, slot, k_block, v_block);
}

bool StoreF16Kv(const float* k, const float* v, int head_dim, int slot, std::byte* k_block, std::byte* v_block) {
  uint16_t k_half[256], v_half[256];
  for (int i = 0; i < head_dim; i += 16) {
    StoreF16(k_half + i, Load16(k + i));
    StoreF16(v_half + i, Load16(v + i));
  }
  return PutFloats<uint16_t>(k_half, v_half, 0x7C00, head_dim, slot, k_block, v_block);
}

bool StoreBf16Kv(const float* k, const float* v, int head_dim, int slot, std::byte* k_block, std::byte* v_block) {
  uint16_t k_half[256], v_half[256];
  RoundToBf16(k, head_dim, k_half);
  RoundToBf16(v, head_dim, v_half);
  return PutFloats<uint16_t>(k_half, v_half, 0x7F80, head_dim, slot, k_block, v_block);
}

bool StoreInt8Kv(const float* k, const float* v, int head_dim, int slot, std::byte* k_block, std::byte* v_block) {
  int8_t k_q[256], v_q[256];
  uint16_t k_scales[16], v_scales[16];
  QuantizeHead(k, head_dim, k_q, k_scales);
  QuantizeHead(v, head_dim, v_q, v_scales);
  PutSlot(k_q, v_q, head_dim, slot, k_block, v_block);
  const size_t values = static_cast<size_t>(kBlockPositions) * head_dim;
  return PutFloats<uint16_t>(k_scales, v_scales, 0x7C00, head_dim / kKvScaleDims, slot, k_block + values,
                             v_block + values);
}

bool StoreKv(KvType type, const float* k, const float* v, int head_dim, int slot, std::byte* k_block,
             std::byte* v_block) {
  switch (type) {
    case KvType::kF16:
      return StoreF16Kv(k, v, head_dim, slot, k_block, v_block);
    case KvType::kF32:
      return StoreF32Kv(k, v, head_dim, slot, k_block, v_block);
    case KvType::kBf16:
      return StoreBf16Kv(k, v, head_dim, slot, k_block, v_block);
    case KvType::kInt8:
      return StoreInt8Kv(k, v, head_dim, slot, k_block, v_block);
  }
  return false;
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
