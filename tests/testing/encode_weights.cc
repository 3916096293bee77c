#include "tests/testing/encode_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "common/base/check.h"
#include "common/model_file/types/type_table.h"
#include "tests/testing/append_bytes.h"

namespace kvrelay::testing {
namespace {

using model_file::TensorType;

constexpr size_t kBlock = 32;

// The level nearest to `position`, out of 0..levels-1.
uint8_t Level(float position, int levels) {
  return static_cast<uint8_t>(std::clamp(std::nearbyint(position), 0.0f, static_cast<float>(levels - 1)));
}

// Q4_0, Q4_1, Q5_0, Q5_1.
template <int kBits, bool kMinimum>
void EncodeSmall(absl::Span<const float> block, std::string& out) {
  constexpr int kLevels = 1 << kBits;
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const float largest = std::max(std::abs(*low), std::abs(*high));
  const float step = kMinimum ? (*high - *low) / (kLevels - 1) : largest / (kLevels / 2 - 1);
  const float zero = kMinimum ? -*low : step * kLevels / 2;
  AppendBytes(out, FloatToHalf(step));
  if (kMinimum) AppendBytes(out, FloatToHalf(*low));
  std::array<uint8_t, kBlock> q;
  uint32_t fifth = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    q[i] = step > 0 ? Level((block[i] + zero) / step, kLevels) : 0;
    fifth |= static_cast<uint32_t>(q[i] >> 4) << i;
  }
  if (kBits == 5) AppendBytes(out, fifth);
  for (size_t i = 0; i < kBlock / 2; ++i) {
    AppendBytes(out, static_cast<uint8_t>((q[i] & 15) | (q[i + kBlock / 2] & 15) << 4));
  }
}

void EncodeQ8_0(absl::Span<const float> block, std::string& out) {
  float largest = 0;
  for (const float value : block) largest = std::max(largest, std::abs(value));
  const float step = largest / 127;
  AppendBytes(out, FloatToHalf(step));
  for (const float value : block) {
    const float q = step > 0 ? std::nearbyint(value / step) : 0;
    AppendBytes(out, static_cast<int8_t>(std::clamp(q, -127.0f, 127.0f)));
  }
}

// Eight 6-bit scales and minimums in 12 bytes.
std::array<uint8_t, 12> EncodeKScales(const std::array<uint8_t, 8>& scales, const std::array<uint8_t, 8>& minimums) {
  std::array<uint8_t, 12> out = {};
  for (size_t i = 0; i < 4; ++i) {
    out[i] = static_cast<uint8_t>(scales[i] | scales[i + 4] >> 4 << 6);
    out[i + 4] = static_cast<uint8_t>(minimums[i] | minimums[i + 4] >> 4 << 6);
    out[i + 8] = static_cast<uint8_t>((scales[i + 4] & 15) | (minimums[i + 4] & 15) << 4);
  }
  return out;
}

// Q4_K, Q5_K.
template <int kBits>
void EncodeK(absl::Span<const float> super, std::string& out) {
  constexpr int kLevels = 1 << kBits;
  std::array<float, 8> steps, depths;  // depth: how far the block's lowest value is below zero
  for (size_t b = 0; b < 8; ++b) {
    const auto [low, high] = std::minmax_element(&super[b * kBlock], &super[b * kBlock] + kBlock);
    depths[b] = std::max(0.0f, -*low);
    steps[b] = std::max(0.0f, *high + depths[b]) / (kLevels - 1);
  }
  const uint16_t d = FloatToHalf(*std::max_element(steps.begin(), steps.end()) / 63);
  const uint16_t d_minimum = FloatToHalf(*std::max_element(depths.begin(), depths.end()) / 63);
  const float unit = model_file::HalfToFloat(d), depth_unit = model_file::HalfToFloat(d_minimum);
  std::array<uint8_t, 8> scales = {}, minimums = {};
  std::array<uint8_t, 256> q = {};
  for (size_t b = 0; b < 8; ++b) {
    if (unit > 0) scales[b] = Level(steps[b] / unit, 64);
    if (depth_unit > 0) minimums[b] = Level(depths[b] / depth_unit, 64);
    const float step = unit * scales[b], depth = depth_unit * minimums[b];
    for (size_t i = b * kBlock; i < (b + 1) * kBlock; ++i) {
      if (step > 0) q[i] = Level((super[i] + depth) / step, kLevels);
    }
  }
  AppendBytes(out, d);
  AppendBytes(out, d_minimum);
  AppendBytes(out, EncodeKScales(scales, minimums));
  for (size_t i = 0; kBits == 5 && i < kBlock; ++i) {
    uint8_t fifth = 0;
    for (size_t b = 0; b < 8; ++b) fifth |= static_cast<uint8_t>(q[b * kBlock + i] >> 4 << b);
    AppendBytes(out, fifth);
  }
  for (size_t run = 0; run < 256; run += 64) {
    for (size_t i = run; i < run + kBlock; ++i) {
      AppendBytes(out, static_cast<uint8_t>((q[i] & 15) | (q[i + kBlock] & 15) << 4));
    }
  }
}

void EncodeQ6_K(absl::Span<const float> super, std::string& out) {
  std::array<float, 16> steps;
  for (size_t g = 0; g < 16; ++g) {
    float largest = 0;
    for (const float value : super.subspan(g * 16, 16)) largest = std::max(largest, std::abs(value));
    steps[g] = largest / 31;
  }
  const uint16_t d = FloatToHalf(*std::max_element(steps.begin(), steps.end()) / 127);
  const float unit = model_file::HalfToFloat(d);
  std::array<uint8_t, 16> scales = {};  // all positive here
  std::array<uint8_t, 256> q;
  for (size_t i = 0; i < 256; ++i) {
    uint8_t& scale = scales[i / 16];
    if (unit > 0) scale = Level(steps[i / 16] / unit, 128);
    q[i] = unit * scale > 0 ? Level(super[i] / (unit * scale) + 32, 64) : 32;
  }
  for (size_t half = 0; half < 256; half += 128) {
    for (size_t i = half; i < half + 64; ++i) {
      AppendBytes(out, static_cast<uint8_t>((q[i] & 15) | (q[i + 64] & 15) << 4));
    }
  }
  for (size_t half = 0; half < 256; half += 128) {
    for (size_t i = half; i < half + 32; ++i) {
      AppendBytes(out,
                  static_cast<uint8_t>(q[i] >> 4 | q[i + 32] >> 4 << 2 | q[i + 64] >> 4 << 4 | q[i + 96] >> 4 << 6));
    }
  }
  AppendBytes(out, scales);
  AppendBytes(out, d);
}

using BlockEncoder = void (*)(absl::Span<const float>, std::string&);

// nullptr for the types of single values.
BlockEncoder EncoderOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBf16:
      return nullptr;
    case TensorType::kQ4_0:
      return EncodeSmall<4, false>;
    case TensorType::kQ4_1:
      return EncodeSmall<4, true>;
    case TensorType::kQ5_0:
      return EncodeSmall<5, false>;
    case TensorType::kQ5_1:
      return EncodeSmall<5, true>;
    case TensorType::kQ8_0:
      return EncodeQ8_0;
    case TensorType::kQ4_K:
      return EncodeK<4>;
    case TensorType::kQ5_K:
      return EncodeK<5>;
    case TensorType::kQ6_K:
      return EncodeQ6_K;
  }
  return nullptr;
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
  if (const BlockEncoder encode = EncoderOf(type); encode != nullptr) {
    const size_t block = model_file::BlockShapeOf(type).elements;
    for (size_t i = 0; i < values.size(); i += block) encode(values.subspan(i, block), out);
  } else {
    for (const float value : values) {
      if (type == TensorType::kF32) AppendBytes(out, value);
      if (type == TensorType::kF16) AppendBytes(out, FloatToHalf(value));
      if (type == TensorType::kBf16) AppendBytes(out, FloatToBf16(value));
    }
  }
  KV_CHECK(out.size() == model_file::RowBytes(type, values.size()), "encoded size is the type's own");
  return out;
}

}  // namespace kvrelay::testing
