// The vector types on AVX2, FMA and F16C: sixteen lanes are two registers.
//
// Included through KVRELAY_VECTOR_HEADER by kernel files, each of which defines KVRELAY_ISA as its own namespace.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "common/kernels/simd/compiler.h"

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

// Six rows of 16 floats are 12 of the 16 registers; 2 hold the right operand, 1 a broadcast.
constexpr int kFloatTileRows = 6;
// Rows times columns of a tile when several columns must be converted first, which takes registers.
constexpr int kConvertedTileVectors = 5;
// Four rows of 16 integer sums are 8 registers, beside weights, mask, broadcast and product.
constexpr int kQuantTileRows = 4;
// Units that one row takes at once.
constexpr int kQuantSingleRowUnits = 1;

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};

KVRELAY_INLINE __m256 LoadHalves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

KVRELAY_INLINE F32x16 Zero16() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
KVRELAY_INLINE F32x16 Set16(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
KVRELAY_INLINE F32x16 Load16(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
KVRELAY_INLINE F32x16 LoadF16x16(const std::byte* p) { return {LoadHalves(p), LoadHalves(p + 16)}; }
KVRELAY_INLINE F32x16 LoadBf16x16(const std::byte* p) {
  const __m128i lo = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i hi = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(lo), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(hi), 16))};
}
KVRELAY_INLINE void Store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
// Rounds to nearest even.
KVRELAY_INLINE void StoreF16(uint16_t* p, F32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}

KVRELAY_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
KVRELAY_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
KVRELAY_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
KVRELAY_INLINE F32x16 Div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
KVRELAY_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// a > b ? a : b, lane by lane: b if either is NaN.
KVRELAY_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
// a < b ? a : b.
KVRELAY_INLINE F32x16 Min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
// a < b ? yes : no.
KVRELAY_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
// Lanes below n from `first`, the others from `rest`.
KVRELAY_INLINE F32x16 FirstLanes(int n, F32x16 first, F32x16 rest) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i lo = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes);
  const __m256i hi = _mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lanes);
  return {_mm256_blendv_ps(rest.lo, first.lo, _mm256_castsi256_ps(lo)),
          _mm256_blendv_ps(rest.hi, first.hi, _mm256_castsi256_ps(hi))};
}

KVRELAY_INLINE I32x16 Bits(F32x16 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
KVRELAY_INLINE F32x16 FromBits(I32x16 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
KVRELAY_INLINE F32x16 ToFloat(I32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
KVRELAY_INLINE I32x16 SetI(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
KVRELAY_INLINE I32x16 AddI(I32x16 a, I32x16 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
KVRELAY_INLINE I32x16 SubI(I32x16 a, I32x16 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
KVRELAY_INLINE I32x16 AndI(I32x16 a, I32x16 b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
KVRELAY_INLINE I32x16 MaxI(I32x16 a, I32x16 b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
template <int kBits>
KVRELAY_INLINE I32x16 ShiftLeft(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
// The low bytes of lanes in -128..127.
KVRELAY_INLINE void StoreI8(int8_t* p, I32x16 a) {
  const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xD8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

// The canonical tree: 8+8, 4+4, 2+2, 1+1.
KVRELAY_INLINE float SumLanes(F32x16 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
KVRELAY_INLINE float MaxLanes(F32x16 a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
KVRELAY_INLINE int32_t SumLanesI(I32x16 a) {
  const __m256i eight = _mm256_add_epi32(a.lo, a.hi);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}
KVRELAY_INLINE int32_t MaxLanesI(I32x16 a) {
  const __m256i eight = _mm256_max_epi32(a.lo, a.hi);
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
}
KVRELAY_INLINE void Prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

// Lanes as pairs of 16-bit integers: both `x`; the two at `p`; and, as 16 pairs of bytes at `p` widened.
KVRELAY_INLINE I32x16 SetPairs(int16_t x) { return {_mm256_set1_epi16(x), _mm256_set1_epi16(x)}; }
KVRELAY_INLINE I32x16 RepeatPair(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return SetI(pair);
}
KVRELAY_INLINE I32x16 LoadI8Pairs(const std::byte* p) {
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))};
}
// The sum of the products of a lane's two pairs.
KVRELAY_INLINE I32x16 MulPairs(I32x16 a, I32x16 b) {
  return {_mm256_madd_epi16(a.lo, b.lo), _mm256_madd_epi16(a.hi, b.hi)};
}
// The first, or second, of each lane's pair twice.
KVRELAY_INLINE __m256i FirstTwice(__m256i a) { return _mm256_shufflelo_epi16(_mm256_shufflehi_epi16(a, 0xA0), 0xA0); }
KVRELAY_INLINE __m256i SecondTwice(__m256i a) { return _mm256_shufflelo_epi16(_mm256_shufflehi_epi16(a, 0xF5), 0xF5); }
// 16 unsigned bytes.
KVRELAY_INLINE I32x16 LoadU8x16(const std::byte* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}

// 16 signed bytes.
KVRELAY_INLINE I32x16 LoadI8x16(const std::byte* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}

// A vector of a packed unit: four bytes of each of the 16 outputs.
struct Bytes64 {
  __m256i lo, hi;
};

KVRELAY_INLINE __m256i LoadBytes(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
KVRELAY_INLINE Bytes64 LoadBytes64(const std::byte* p) { return {LoadBytes(p), LoadBytes(p + 32)}; }
KVRELAY_INLINE Bytes64 Or(Bytes64 a, Bytes64 b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
// The bits of `mask` of each byte, after all moved up by `left`, or down if it is negative. No bit of `mask` may come
// from a neighbour.
KVRELAY_INLINE Bytes64 MoveBits(Bytes64 a, int left, int mask) {
  if (left > 0) a = {_mm256_slli_epi16(a.lo, left), _mm256_slli_epi16(a.hi, left)};
  if (left < 0) a = {_mm256_srli_epi16(a.lo, -left), _mm256_srli_epi16(a.hi, -left)};
  const __m256i bits = _mm256_set1_epi8(static_cast<char>(mask));
  return {_mm256_and_si256(a.lo, bits), _mm256_and_si256(a.hi, bits)};
}

// Four consecutive values of a row, repeated.
KVRELAY_INLINE __m256i Repeat4(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return _mm256_set1_epi32(four);
}

// Keeps the compiler from moving a sum's additions behind all of its products, which no longer fit the registers then.
KVRELAY_INLINE void Pin(__m256i& a) { __asm__("" : "+x"(a)); }

// For each of kRows rows, `stride` apart: start(r) plus the sum over 32 values of weight times value times
// factor(half), exact. weights(j) are the weights of values 4j..4j+3, at most kMaxWeight; half is 0 or 1 for values
// from 16 on.
//
// Rows and both halves of the 16 outputs share what is loaded: with one half at a time, loads would be the limit. A
// 16-bit lane sums pairs of at most 2 * kMaxWeight * 127 as long as they fit, before they are widened.
template <int kMaxWeight, int kRows, class Weights, class Factor, class Start>
KVRELAY_INLINE void SumOfProducts(const Weights& weights, const Factor& factor, const Start& start, const int8_t* x,
                                  size_t stride, I32x16 (&out)[kRows]) {
  constexpr int kFit = 32767 / (2 * kMaxWeight * 127);
  constexpr int kPairs = kFit >= 8 ? 8 : kFit >= 4 ? 4 : 2;
  static_assert(kFit >= 2);
  __m256i lo[kRows], hi[kRows];
  KVRELAY_UNROLL(8)
  for (int j = 0; j < 8; ++j) {
    const Bytes64 w = weights(j);
    KVRELAY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const __m256i four = Repeat4(x + r * stride + 4 * j);
      const __m256i lo_pairs = _mm256_maddubs_epi16(w.lo, four);
      const __m256i hi_pairs = _mm256_maddubs_epi16(w.hi, four);
      lo[r] = j % kPairs == 0 ? lo_pairs : _mm256_add_epi16(lo[r], lo_pairs);
      hi[r] = j % kPairs == 0 ? hi_pairs : _mm256_add_epi16(hi[r], hi_pairs);
      Pin(lo[r]);
      Pin(hi[r]);
    }
    if (j % kPairs != kPairs - 1) continue;
    const I32x16 times = factor(j / 4);
    KVRELAY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const I32x16 sum = MulPairs({lo[r], hi[r]}, times);
      out[r] = AddI(j < kPairs ? start(r) : out[r], sum);
    }
  }
}

// Exact integer products of one block of unsigned weights: see SumOfProducts.
template <int kMaxWeight, int kRows, class Weights, class Start>
KVRELAY_INLINE void Products(const Weights& weights, const Start& start, const int8_t* x, size_t stride,
                             I32x16 (&out)[kRows]) {
  const auto one = [](int) __attribute__((always_inline)) { return SetPairs(1); };
  SumOfProducts<kMaxWeight, kRows>(weights, one, start, x, stride, out);
}

// The same for 6-bit weights; products of the first 16 values are multiplied by the first of `scales`, the others by
// the second.
template <int kRows, class Weights, class Start>
KVRELAY_INLINE void ScaledProducts(const Weights& weights, I32x16 scales, const Start& start, const int8_t* x,
                                   size_t stride, I32x16 (&out)[kRows]) {
  const auto scale = [&](int half) __attribute__((always_inline)) {
    return half == 0 ? I32x16{FirstTwice(scales.lo), FirstTwice(scales.hi)}
                     : I32x16{SecondTwice(scales.lo), SecondTwice(scales.hi)};
  };
  SumOfProducts<63, kRows>(weights, scale, start, x, stride, out);
}

// Products of signed weights: w * x = |w| * (sign of w) x, as the instruction wants one unsigned side (|-128| is 128).
// A pair is at most 2 * 128 * 127 = 32512, which fits 16 bits; two pairs would not. The rows' sums are not needed here.
template <int kRows, class Sums>
KVRELAY_INLINE void SignedProducts(const std::byte* block, const Sums&, const int8_t* x, size_t stride,
                                   I32x16 (&out)[kRows]) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int r = 0; r < kRows; ++r) out[r] = SetI(0);
  KVRELAY_UNROLL(8)
  for (int j = 0; j < 8; ++j) {
    const __m256i w_lo = LoadBytes(block + 64 * j);
    const __m256i w_hi = LoadBytes(block + 64 * j + 32);
    const __m256i magnitude_lo = _mm256_abs_epi8(w_lo);
    const __m256i magnitude_hi = _mm256_abs_epi8(w_hi);
    KVRELAY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const __m256i four = Repeat4(x + r * stride + 4 * j);
      const __m256i lo_pairs = _mm256_maddubs_epi16(magnitude_lo, _mm256_sign_epi8(four, w_lo));
      const __m256i hi_pairs = _mm256_maddubs_epi16(magnitude_hi, _mm256_sign_epi8(four, w_hi));
      out[r].lo = _mm256_add_epi32(out[r].lo, _mm256_madd_epi16(lo_pairs, ones));
      out[r].hi = _mm256_add_epi32(out[r].hi, _mm256_madd_epi16(hi_pairs, ones));
      Pin(out[r].lo);
      Pin(out[r].hi);
    }
  }
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
