// The vector types on plain arrays: what every instruction set must compute, said as simply as possible. The operations
// are described in vector_avx2.h.
//
// Included through KVRELAY_VECTOR_HEADER by kernel files, each of which defines KVRELAY_ISA as its own namespace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/simd/compiler.h"

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

// Rows of a float tile, and of an integer one: small, for arrays fill no registers.
constexpr int kFloatTileRows = 2;
constexpr int kConvertedTileVectors = 2;
constexpr int kQuantTileRows = 4;
constexpr int kQuantSingleRowUnits = 1;

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};

template <class F>
KVRELAY_INLINE F32x16 MakeF32(F lane) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = lane(i);
  return r;
}
template <class F>
KVRELAY_INLINE I32x16 MakeI32(F lane) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = lane(i);
  return r;
}
KVRELAY_INLINE int32_t BitsOf(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
KVRELAY_INLINE float FloatOf(int32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
// Wraps like the vector instructions do.
KVRELAY_INLINE int32_t WrappingAdd(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

KVRELAY_INLINE float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 0x1F;
  const uint32_t mantissa = h & 0x3FF;
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return FloatOf(static_cast<int32_t>(sign | static_cast<uint32_t>(BitsOf(magnitude))));
  }
  if (exponent == 31) {  // infinity, or a NaN made quiet
    const uint32_t quiet = mantissa != 0 ? 0x400000 : 0;
    return FloatOf(static_cast<int32_t>(sign | 0x7F800000 | quiet | (mantissa << 13)));
  }
  return FloatOf(static_cast<int32_t>(sign | ((exponent + 112) << 23) | (mantissa << 13)));
}

// Rounds to nearest even, like F16C.
KVRELAY_INLINE uint16_t FloatToHalf(float x) {
  const uint32_t bits = static_cast<uint32_t>(BitsOf(x));
  const uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // 65520 and above round to infinity
  if (magnitude < 0x38800000) {  // below 2^-14: adding 1/2 rounds at the half's last denormal bit
    const uint32_t shifted = static_cast<uint32_t>(BitsOf(FloatOf(static_cast<int32_t>(magnitude)) + 0.5f));
    return static_cast<uint16_t>(sign | (shifted - 0x3F000000));
  }
  magnitude += ((magnitude >> 13) & 1) + 0xFFF - (112u << 23);
  return static_cast<uint16_t>(sign | (magnitude >> 13));
}

KVRELAY_INLINE F32x16 Zero16() {
  return MakeF32([](int) { return 0.0f; });
}
KVRELAY_INLINE F32x16 Set16(float x) {
  return MakeF32([&](int) { return x; });
}
KVRELAY_INLINE F32x16 Load16(const float* p) {
  return MakeF32([&](int i) { return p[i]; });
}
KVRELAY_INLINE F32x16 LoadF16x16(const std::byte* p) {
  return MakeF32([&](int i) {
    uint16_t h;
    __builtin_memcpy(&h, p + 2 * i, 2);
    return HalfToFloat(h);
  });
}
KVRELAY_INLINE F32x16 LoadBf16x16(const std::byte* p) {
  return MakeF32([&](int i) {
    uint16_t h;
    __builtin_memcpy(&h, p + 2 * i, 2);
    return FloatOf(static_cast<int32_t>(static_cast<uint32_t>(h) << 16));
  });
}
KVRELAY_INLINE void Store(float* p, const F32x16& a) { __builtin_memcpy(p, a.v, sizeof(a.v)); }
KVRELAY_INLINE void StoreF16(uint16_t* p, const F32x16& a) {
  for (int i = 0; i < 16; ++i) p[i] = FloatToHalf(a.v[i]);
}

KVRELAY_INLINE F32x16 Add(const F32x16& a, const F32x16& b) {
  return MakeF32([&](int i) { return a.v[i] + b.v[i]; });
}
KVRELAY_INLINE F32x16 Sub(const F32x16& a, const F32x16& b) {
  return MakeF32([&](int i) { return a.v[i] - b.v[i]; });
}
KVRELAY_INLINE F32x16 Mul(const F32x16& a, const F32x16& b) {
  return MakeF32([&](int i) { return a.v[i] * b.v[i]; });
}
KVRELAY_INLINE F32x16 Div(const F32x16& a, const F32x16& b) {
  return MakeF32([&](int i) { return a.v[i] / b.v[i]; });
}
KVRELAY_INLINE F32x16 Fma(const F32x16& a, const F32x16& b, const F32x16& c) {
  return MakeF32([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
KVRELAY_INLINE F32x16 Max(const F32x16& a, const F32x16& b) {
  return MakeF32([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
KVRELAY_INLINE F32x16 Min(const F32x16& a, const F32x16& b) {
  return MakeF32([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
KVRELAY_INLINE F32x16 SelectLess(const F32x16& a, const F32x16& b, const F32x16& yes, const F32x16& no) {
  return MakeF32([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
}
KVRELAY_INLINE F32x16 FirstLanes(int n, const F32x16& first, const F32x16& rest) {
  return MakeF32([&](int i) { return i < n ? first.v[i] : rest.v[i]; });
}

KVRELAY_INLINE I32x16 Bits(const F32x16& a) {
  return MakeI32([&](int i) { return BitsOf(a.v[i]); });
}
KVRELAY_INLINE F32x16 FromBits(const I32x16& a) {
  return MakeF32([&](int i) { return FloatOf(a.v[i]); });
}
KVRELAY_INLINE F32x16 ToFloat(const I32x16& a) {
  return MakeF32([&](int i) { return static_cast<float>(a.v[i]); });
}
KVRELAY_INLINE I32x16 SetI(int32_t x) {
  return MakeI32([&](int) { return x; });
}
KVRELAY_INLINE I32x16 AddI(const I32x16& a, const I32x16& b) {
  return MakeI32([&](int i) { return WrappingAdd(a.v[i], b.v[i]); });
}
KVRELAY_INLINE I32x16 SubI(const I32x16& a, const I32x16& b) {
  return MakeI32([&](int i) { return a.v[i] - b.v[i]; });
}
KVRELAY_INLINE I32x16 AndI(const I32x16& a, const I32x16& b) {
  return MakeI32([&](int i) { return a.v[i] & b.v[i]; });
}
KVRELAY_INLINE I32x16 MaxI(const I32x16& a, const I32x16& b) {
  return MakeI32([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
template <int kBits>
KVRELAY_INLINE I32x16 ShiftLeft(const I32x16& a) {
  return MakeI32([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << kBits); });
}
KVRELAY_INLINE void StoreI8(int8_t* p, const I32x16& a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

KVRELAY_INLINE float SumLanes(F32x16 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.v[i] += a.v[i + width];
  }
  return a.v[0];
}
KVRELAY_INLINE float MaxLanes(F32x16 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.v[i] = a.v[i] > a.v[i + width] ? a.v[i] : a.v[i + width];
  }
  return a.v[0];
}
KVRELAY_INLINE int32_t SumLanesI(const I32x16& a) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum = WrappingAdd(sum, a.v[i]);
  return sum;
}
KVRELAY_INLINE int32_t MaxLanesI(const I32x16& a) {
  int32_t max = a.v[0];
  for (int i = 1; i < 16; ++i) max = max > a.v[i] ? max : a.v[i];
  return max;
}
KVRELAY_INLINE void Prefetch(const std::byte*) {}

// The pair of a lane is its low and its high half.
KVRELAY_INLINE int32_t MakePair(int16_t first, int16_t second) {
  return static_cast<int32_t>(static_cast<uint16_t>(first) | static_cast<uint32_t>(static_cast<uint16_t>(second))
                                                                 << 16);
}
KVRELAY_INLINE int FirstOf(int32_t pair) { return static_cast<int16_t>(pair); }
KVRELAY_INLINE int SecondOf(int32_t pair) { return static_cast<int16_t>(pair >> 16); }
KVRELAY_INLINE I32x16 SetPairs(int16_t x) { return SetI(MakePair(x, x)); }
KVRELAY_INLINE I32x16 RepeatPair(const int16_t* p) { return SetI(MakePair(p[0], p[1])); }
KVRELAY_INLINE I32x16 LoadI8Pairs(const std::byte* p) {
  return MakeI32([&](int i) { return MakePair(static_cast<int8_t>(p[2 * i]), static_cast<int8_t>(p[2 * i + 1])); });
}
KVRELAY_INLINE I32x16 MulPairs(const I32x16& a, const I32x16& b) {
  return MakeI32([&](int i) { return FirstOf(a.v[i]) * FirstOf(b.v[i]) + SecondOf(a.v[i]) * SecondOf(b.v[i]); });
}
KVRELAY_INLINE I32x16 LoadU8x16(const std::byte* p) {
  return MakeI32([&](int i) { return static_cast<int32_t>(p[i]); });
}
KVRELAY_INLINE I32x16 LoadI8x16(const std::byte* p) {
  return MakeI32([&](int i) { return static_cast<int8_t>(p[i]); });
}

struct Bytes64 {
  uint8_t v[64];
};

KVRELAY_INLINE Bytes64 LoadBytes64(const std::byte* p) {
  Bytes64 r;
  __builtin_memcpy(r.v, p, sizeof(r.v));
  return r;
}
KVRELAY_INLINE Bytes64 Or(Bytes64 a, const Bytes64& b) {
  for (int i = 0; i < 64; ++i) a.v[i] |= b.v[i];
  return a;
}
KVRELAY_INLINE Bytes64 MoveBits(Bytes64 a, int left, int mask) {
  for (uint8_t& byte : a.v) byte = static_cast<uint8_t>((left > 0 ? byte << left : byte >> -left) & mask);
  return a;
}

// Exact integer products of one packed block with 32 values each of kRows rows: see vector_avx2.h. The scale of
// half `half` (0: the first 16) in a lane is scale(lane, half).
template <int kRows, class Weights, class Scale, class Start>
KVRELAY_INLINE void SumOfProducts(const Weights& weights, const Scale& scale, const Start& start, const int8_t* x,
                                  size_t stride, I32x16 (&out)[kRows]) {
  for (int r = 0; r < kRows; ++r) out[r] = start(r);
  for (int j = 0; j < 8; ++j) {
    const Bytes64 w = weights(j);
    for (int r = 0; r < kRows; ++r) {
      const int8_t* row = x + r * stride + 4 * j;
      for (int lane = 0; lane < 16; ++lane) {
        int32_t sum = 0;
        for (int i = 0; i < 4; ++i) sum += w.v[lane * 4 + i] * row[i];
        out[r].v[lane] += sum * scale(lane, j / 4);
      }
    }
  }
}
template <int kMaxWeight, int kRows, class Weights, class Start>
KVRELAY_INLINE void Products(const Weights& weights, const Start& start, const int8_t* x, size_t stride,
                             I32x16 (&out)[kRows]) {
  SumOfProducts<kRows>(
      weights, [](int, int) { return 1; }, start, x, stride, out);
}
template <int kRows, class Weights, class Start>
KVRELAY_INLINE void ScaledProducts(const Weights& weights, const I32x16& scales, const Start& start, const int8_t* x,
                                   size_t stride, I32x16 (&out)[kRows]) {
  const auto scale = [&](int lane, int half) { return half == 0 ? FirstOf(scales.v[lane]) : SecondOf(scales.v[lane]); };
  SumOfProducts<kRows>(weights, scale, start, x, stride, out);
}
template <int kRows, class Sums>
KVRELAY_INLINE void SignedProducts(const std::byte* block, const Sums&, const int8_t* x, size_t stride,
                                   I32x16 (&out)[kRows]) {
  for (int r = 0; r < kRows; ++r) out[r] = SetI(0);
  for (int j = 0; j < 8; ++j) {
    int8_t w[64];
    __builtin_memcpy(w, block + j * 64, sizeof(w));
    for (int r = 0; r < kRows; ++r) {
      const int8_t* row = x + r * stride + 4 * j;
      for (int lane = 0; lane < 16; ++lane) {
        int32_t sum = 0;
        for (int i = 0; i < 4; ++i) sum += w[lane * 4 + i] * row[i];
        out[r].v[lane] += sum;
      }
    }
  }
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
