// The AVX-512 kernel source as a set in namespace KVRELAY_ISA, compiled against SIMDe, which emulates each instruction
// with AVX2. The instructions that this version of SIMDe lacks are emulated below, lane by lane.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <immintrin.h>
// After the compiler's own header, whose names the aliases replace.
#include <simde/x86/avx512.h>

#include <cstdint>

#define __m512 simde__m512
#define __m512i simde__m512i
#define __mmask16 simde__mmask16

namespace {

simde__m512 FromHalves(__m256 lo, __m256 hi) {
  simde__m512_private r;
  r.m256[0] = lo;
  r.m256[1] = hi;
  return simde__m512_from_private(r);
}
simde__m512i FromHalves(__m256i lo, __m256i hi) {
  simde__m512i_private r;
  r.m256i[0] = lo;
  r.m256i[1] = hi;
  return simde__m512i_from_private(r);
}

simde__m512 HalvesToFloats(__m256i a) {
  return FromHalves(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}
template <int kRounding>
__m256i FloatsToHalves(simde__m512 a) {
  const simde__m512_private p = simde__m512_to_private(a);
  return _mm256_set_m128i(_mm256_cvtps_ph(p.m256[1], kRounding), _mm256_cvtps_ph(p.m256[0], kRounding));
}
simde__m512i WidenU16(__m256i a) {
  return FromHalves(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)),
                    _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)));
}
simde__m512i WidenU8(__m128i a) {
  return FromHalves(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8)));
}
simde__m512i WidenI8(__m128i a) {
  return FromHalves(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8)));
}
simde__m512 IntsToFloats(simde__m512i a) {
  const simde__m512i_private p = simde__m512i_to_private(a);
  return FromHalves(_mm256_cvtepi32_ps(p.m256i[0]), _mm256_cvtepi32_ps(p.m256i[1]));
}
__m128i NarrowToI8(simde__m512i a) {
  const simde__m512i_private p = simde__m512i_to_private(a);
  alignas(16) int8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<int8_t>(p.i32[i]);
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
}
template <int kHalf>
__m256 HalfOf(simde__m512 a) {
  return simde__m512_to_private(a).m256[kHalf];
}
template <int kHalf>
__m256i HalfOf(simde__m512i a) {
  return simde__m512i_to_private(a).m256i[kHalf];
}

}  // namespace

#define _mm512_cvtph_ps(a) HalvesToFloats(a)
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(a, rounding) FloatsToHalves<rounding>(a)
#define _mm512_cvtepu16_epi32(a) WidenU16(a)
#define _mm512_cvtepu8_epi32(a) WidenU8(a)
#define _mm512_cvtepi8_epi32(a) WidenI8(a)
#define _mm512_cvtepi32_ps(a) IntsToFloats(a)
#define _mm512_cvtepi32_epi8(a) NarrowToI8(a)
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(a, half) HalfOf<half>(a)
#undef _mm512_extracti32x8_epi32
#define _mm512_extracti32x8_epi32(a, half) HalfOf<half>(a)

// The library's own alias takes the arguments of another instruction.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)

// Emulated registers are memory anyway, and unrolled loops are most of what there is to compile.
#define KVRELAY_UNROLL(n)
#define KVRELAY_VECTOR_HEADER "common/kernels/simd/vector_avx512.h"

#include "common/kernels/simd/kernel_set.h"
