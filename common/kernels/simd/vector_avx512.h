// The vector types on AVX-512 F, BW, VL, DQ and VNNI: sixteen lanes are one register. The operations are described in
// vector_avx2.h.
//
// Included through KVRELAY_VECTOR_HEADER by kernel files, each of which defines KVRELAY_ISA as its own namespace.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "common/kernels/simd/compiler.h"

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

// With 32 registers: eight independent chains hide the latency of a fused multiply-add.
constexpr int kFloatTileRows = 8;
constexpr int kConvertedTileVectors = 8;
// Eight registers hold a block's weights, sixteen the sums of 16 rows.
constexpr int kQuantTileRows = 16;
// Units that one row takes at once: independent chains that hide the latency of the dot products.
constexpr int kQuantSingleRowUnits = 4;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};

KVRELAY_INLINE F32x16 Zero16() { return {_mm512_setzero_ps()}; }
KVRELAY_INLINE F32x16 Set16(float x) { return {_mm512_set1_ps(x)}; }
KVRELAY_INLINE F32x16 Load16(const float* p) { return {_mm512_loadu_ps(p)}; }
KVRELAY_INLINE F32x16 LoadF16x16(const std::byte* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
KVRELAY_INLINE F32x16 LoadBf16x16(const std::byte* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
KVRELAY_INLINE void Store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
KVRELAY_INLINE void StoreF16(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

KVRELAY_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
KVRELAY_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
KVRELAY_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
KVRELAY_INLINE F32x16 Div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
KVRELAY_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
KVRELAY_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
KVRELAY_INLINE F32x16 Min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
KVRELAY_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
KVRELAY_INLINE F32x16 FirstLanes(int n, F32x16 first, F32x16 rest) {
  const __mmask16 mask = n >= 16 ? 0xFFFF : static_cast<__mmask16>((1u << n) - 1);
  return {_mm512_mask_blend_ps(mask, rest.v, first.v)};
}

KVRELAY_INLINE I32x16 Bits(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
KVRELAY_INLINE F32x16 FromBits(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
KVRELAY_INLINE F32x16 ToFloat(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
KVRELAY_INLINE I32x16 SetI(int32_t x) { return {_mm512_set1_epi32(x)}; }
KVRELAY_INLINE I32x16 AddI(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
KVRELAY_INLINE I32x16 SubI(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
KVRELAY_INLINE I32x16 AndI(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
KVRELAY_INLINE I32x16 MaxI(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int kBits>
KVRELAY_INLINE I32x16 ShiftLeft(I32x16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
KVRELAY_INLINE void StoreI8(int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}

KVRELAY_INLINE float SumLanes(F32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
KVRELAY_INLINE float MaxLanes(F32x16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
KVRELAY_INLINE int32_t SumLanesI(I32x16 a) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti32x8_epi32(a.v, 1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}
KVRELAY_INLINE int32_t MaxLanesI(I32x16 a) {
  const __m256i eight = _mm256_max_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti32x8_epi32(a.v, 1));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
}
KVRELAY_INLINE void Prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

KVRELAY_INLINE I32x16 SetPairs(int16_t x) { return {_mm512_set1_epi16(x)}; }
KVRELAY_INLINE I32x16 RepeatPair(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return SetI(pair);
}
KVRELAY_INLINE I32x16 LoadI8Pairs(const std::byte* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
KVRELAY_INLINE I32x16 MulPairs(I32x16 a, I32x16 b) { return {_mm512_madd_epi16(a.v, b.v)}; }
KVRELAY_INLINE I32x16 LoadU8x16(const std::byte* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
KVRELAY_INLINE I32x16 LoadI8x16(const std::byte* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}

struct Bytes64 {
  __m512i v;
};

KVRELAY_INLINE Bytes64 LoadBytes64(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
KVRELAY_INLINE Bytes64 Or(Bytes64 a, Bytes64 b) { return {_mm512_or_si512(a.v, b.v)}; }
KVRELAY_INLINE Bytes64 MoveBits(Bytes64 a, int left, int mask) {
  if (left > 0) a = {_mm512_slli_epi16(a.v, left)};
  if (left < 0) a = {_mm512_srli_epi16(a.v, -left)};
  return {_mm512_and_si512(a.v, _mm512_set1_epi8(static_cast<char>(mask)))};
}

// Four consecutive values of a row, repeated.
KVRELAY_INLINE __m512i Repeat4(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return _mm512_set1_epi32(four);
}

// In each lane: sum plus the products of four weights, 0..kMaxWeight, with four values. Exact.
template <int kMaxWeight>
KVRELAY_INLINE __m512i AddProductsOf4(__m512i sum, __m512i weights, __m512i values) {
#ifdef KVRELAY_AVX512_VNNI
  return _mm512_dpbusd_epi32(sum, weights, values);
#else
  if constexpr (2 * kMaxWeight * 127 <= 32767) {
    const __m512i pairs = _mm512_maddubs_epi16(weights, values);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  } else {  // a pair may pass 16 bits, where that instruction would saturate: even and odd bytes apart, widened
    const __m512i even = _mm512_madd_epi16(_mm512_and_si512(weights, _mm512_set1_epi16(255)),
                                           _mm512_srai_epi16(_mm512_slli_epi16(values, 8), 8));
    const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(weights, 8), _mm512_srai_epi16(values, 8));
    return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
  }
#endif
}

// sum plus the products of the weights w[begin..end-1] with a row's values.
template <int kMaxWeight>
KVRELAY_INLINE __m512i AddProducts(__m512i sum, const __m512i (&w)[8], int begin, int end, const int8_t* row) {
  KVRELAY_UNROLL(8)
  for (int j = begin; j < end; ++j) sum = AddProductsOf4<kMaxWeight>(sum, w[j], Repeat4(row + 4 * j));
  return sum;
}

// Exact integer products of one packed block with 32 values each of kRows rows: see vector_avx2.h.
template <int kMaxWeight, int kRows, class Weights, class Start>
KVRELAY_INLINE void Products(const Weights& weights, const Start& start, const int8_t* x, size_t stride,
                             I32x16 (&out)[kRows]) {
  __m512i w[8];
  KVRELAY_UNROLL(8)
  for (int j = 0; j < 8; ++j) w[j] = weights(j).v;
  KVRELAY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) out[r] = {AddProducts<kMaxWeight>(start(r).v, w, 0, 8, x + r * stride)};
}

template <int kRows, class Weights, class Start>
KVRELAY_INLINE void ScaledProducts(const Weights& weights, I32x16 scales, const Start& start, const int8_t* x,
                                   size_t stride, I32x16 (&out)[kRows]) {
  __m512i w[8];
  KVRELAY_UNROLL(8)
  for (int j = 0; j < 8; ++j) w[j] = weights(j).v;
  // Times (1, 0) and (0, 1): each alone, in 32 bits.
  const __m512i first = MulPairs(scales, SetI(1)).v;
  const __m512i second = MulPairs(scales, SetI(1 << 16)).v;
  KVRELAY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    const int8_t* row = x + r * stride;
    const __m512i zero = _mm512_setzero_si512();
    const __m512i of_first = _mm512_mullo_epi32(AddProducts<63>(zero, w, 0, 4, row), first);
    const __m512i of_second = _mm512_mullo_epi32(AddProducts<63>(zero, w, 4, 8, row), second);
    out[r] = {_mm512_add_epi32(start(r).v, _mm512_add_epi32(of_first, of_second))};
  }
}

// The instruction wants unsigned weights: w + 128, with 128 times the row's sum taken off at the start.
template <int kRows, class Sums>
KVRELAY_INLINE void SignedProducts(const std::byte* block, const Sums& sums, const int8_t* x, size_t stride,
                                   I32x16 (&out)[kRows]) {
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512i w[8];
  KVRELAY_UNROLL(8)
  for (int j = 0; j < 8; ++j) w[j] = _mm512_xor_si512(_mm512_loadu_si512(block + 64 * j), offset);
  KVRELAY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    out[r] = {AddProducts<255>(MulPairs(sums(r), SetPairs(-128)).v, w, 0, 8, x + r * stride)};
  }
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
