#include "tests/testing/encode_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/check.h"
#include "common/model_file/types/type_table.h"

namespace kvrelay::testing {
namespace {

using model_file::TensorType;

constexpr size_t kBlock = 32;

template <typename T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void EncodeQ4_1(absl::Span<const float> block, std::string& out) {
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const float minimum = *low;
  const float step = (*high - minimum) / 15;
  const auto level = [&](float value) {
    const float q = step > 0 ? std::nearbyint((value - minimum) / step) : 0;
    return static_cast<uint8_t>(std::clamp(q, 0.0f, 15.0f));
  };
  Append(out, FloatToHalf(step));
  Append(out, FloatToHalf(minimum));
  for (size_t j = 0; j < kBlock / 2; ++j) {
    Append(out, static_cast<uint8_t>(level(block[j]) | level(block[j + kBlock / 2]) << 4));
  }
}

void EncodeQ8_0(absl::Span<const float> block, std::string& out) {
  float largest = 0;
  for (const float value : block) largest = std::max(largest, std::abs(value));
  const float step = largest / 127;
  Append(out, FloatToHalf(step));
  for (const float value : block) {
    const float q = step > 0 ? std::nearbyint(value / step) : 0;
    Append(out, static_cast<int8_t>(std::clamp(q, -127.0f, 127.0f)));
  }
}

}  // namespace

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = (bits >> 16) & 0x8000;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) {
    // Subnormal: the sum is rounded to a multiple of 2^-24, whose count is then the low bits (2^10 is the least
    // normal).
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(magnitude + 0.5f) - std::bit_cast<uint32_t>(0.5f));
  }
  // Rebias the exponent, then round the 13 bits that go away; a carry runs into the exponent as it should.
  const uint32_t rebased = (bits & 0x7fffffff) - ((127 - 15) << 23);
  return sign | static_cast<uint16_t>((rebased + 0xfff + ((rebased >> 13) & 1)) >> 13);
}

uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::string EncodeWeights(TensorType type, absl::Span<const float> values) {
  std::string out;
  out.reserve(model_file::RowBytes(type, values.size()));
  switch (type) {
    case TensorType::kF32:
      for (const float value : values) Append(out, value);
      break;
    case TensorType::kF16:
      for (const float value : values) Append(out, FloatToHalf(value));
      break;
    case TensorType::kBf16:
      for (const float value : values) Append(out, FloatToBf16(value));
      break;
    case TensorType::kQ4_1:
      for (size_t i = 0; i < values.size(); i += kBlock) EncodeQ4_1(values.subspan(i, kBlock), out);
      break;
    case TensorType::kQ8_0:
      for (size_t i = 0; i < values.size(); i += kBlock) EncodeQ8_0(values.subspan(i, kBlock), out);
      break;
  }
  KV_CHECK(out.size() == model_file::RowBytes(type, values.size()), "encoded size is the type's own");
  return out;
}

}  // namespace kvrelay::testing
