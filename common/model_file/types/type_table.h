// One entry per element type, each in a file of its own. A new type is one more file here, one more row in
// tensor_type.cc and one more name in TensorType.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/model_file/tensor_type.h"

namespace kvrelay::model_file {

// GGUF files are little-endian and so is every machine that we build for; fields are read as they lie.
static_assert(std::endian::native == std::endian::little);

struct TypeEntry {
  TensorType type;
  std::string_view name;
  BlockShape block;
  // Exact values of `blocks` consecutive blocks.
  void (*dequantize)(const std::byte* blocks, size_t block_count, float* out);
};

extern const TypeEntry kF32Entry;
extern const TypeEntry kF16Entry;
extern const TypeEntry kBf16Entry;
extern const TypeEntry kQ4_0Entry;
extern const TypeEntry kQ4_1Entry;
extern const TypeEntry kQ5_0Entry;
extern const TypeEntry kQ5_1Entry;
extern const TypeEntry kQ8_0Entry;
extern const TypeEntry kQ4_KEntry;
extern const TypeEntry kQ5_KEntry;
extern const TypeEntry kQ6_KEntry;

// Reads a field that need not be aligned.
template <typename T>
T LoadField(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// IEEE binary16 to binary32: exact for every input, subnormals, infinities and NaN payloads included.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
  // Subnormal or zero: fraction * 2^-24, a product that f32 holds exactly.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

inline float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace kvrelay::model_file
