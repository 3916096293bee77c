// The vector types on AVX-512 F, BW, VL, DQ and VNNI: sixteen lanes are one register. The operations are described in
// vector_avx2.h.
//
// Included through KVRELAY_VECTOR_HEADER by kernel files, each of which defines KVRELAY_ISA as its own namespace.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define KVRELAY_INLINE inline __attribute__((always_inline))

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

constexpr int kLanes = 16;
// With 32 registers: eight independent chains hide the latency of a fused multiply-add.
constexpr int kFloatTileRows = 8;
// Eight registers hold a block's weights, sixteen the sums of 16 rows.
constexpr int kQuantTileRows = 16;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
using F32v = F32x16;
using I32v = I32x16;

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

KVRELAY_INLINE F32v ZeroV() { return Zero16(); }
KVRELAY_INLINE F32v SetV(float x) { return Set16(x); }
KVRELAY_INLINE F32v LoadV(const float* p) { return Load16(p); }
KVRELAY_INLINE F32v LoadF16V(const std::byte* p) { return LoadF16x16(p); }

// Four consecutive values of a row, repeated.
KVRELAY_INLINE __m512i Repeat4(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return _mm512_set1_epi32(four);
}

// A block's weights for 16 outputs: element j holds values 4j..4j+3 of each.
struct Q4Weights {
  __m512i v[8];
};
KVRELAY_INLINE Q4Weights LoadQ4(const std::byte* block) {
  Q4Weights w;
  const __m512i nibble = _mm512_set1_epi8(15);
  for (int j = 0; j < 4; ++j) {
    const __m512i bytes = _mm512_loadu_si512(block + 64 * j);
    w.v[j] = _mm512_and_si512(bytes, nibble);
    w.v[j + 4] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble);
  }
  return w;
}
KVRELAY_INLINE I32v Dot(const Q4Weights& w, const int8_t* x, int32_t) {
  __m512i sum = _mm512_setzero_si512();
  for (int j = 0; j < 8; ++j) sum = _mm512_dpbusd_epi32(sum, w.v[j], Repeat4(x + 4 * j));
  return {sum};
}

// The instruction wants unsigned weights: w + 128, with 128 times the row's sum taken off at the start.
struct Q8Weights {
  __m512i v[8];
};
KVRELAY_INLINE Q8Weights LoadQ8(const std::byte* block) {
  Q8Weights w;
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
  for (int j = 0; j < 8; ++j) w.v[j] = _mm512_xor_si512(_mm512_loadu_si512(block + 64 * j), offset);
  return w;
}
KVRELAY_INLINE I32v Dot(const Q8Weights& w, const int8_t* x, int32_t x_sum) {
  __m512i sum = _mm512_set1_epi32(-128 * x_sum);
  for (int j = 0; j < 8; ++j) sum = _mm512_dpbusd_epi32(sum, w.v[j], Repeat4(x + 4 * j));
  return {sum};
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
