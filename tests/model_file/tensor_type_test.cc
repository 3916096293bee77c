#include "common/model_file/tensor_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/model_file/types/type_table.h"
#include "tests/testing/encode_weights.h"

namespace kvrelay::model_file {
namespace {

using ::testing::ElementsAre;

using kvrelay::testing::kAllTypes;

std::vector<float> Dequantize(TensorType type, const std::string& bytes, size_t elements) {
  std::vector<float> out(elements);
  DequantizeRow(type, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()),
                absl::MakeSpan(out));
  return out;
}

TEST(TensorType, ShapesAndNames) {
  struct Expected {
    uint32_t number;
    const char* name;
    size_t elements, bytes;
  };
  for (const Expected& e : {Expected{0, "F32", 1, 4}, Expected{1, "F16", 1, 2}, Expected{2, "Q4_0", 32, 18},
                            Expected{3, "Q4_1", 32, 20}, Expected{6, "Q5_0", 32, 22}, Expected{7, "Q5_1", 32, 24},
                            Expected{8, "Q8_0", 32, 34}, Expected{12, "Q4_K", 256, 144}, Expected{13, "Q5_K", 256, 176},
                            Expected{14, "Q6_K", 256, 210}, Expected{30, "BF16", 1, 2}}) {
    const std::optional<TensorType> type = TensorTypeFromGguf(e.number);
    ASSERT_TRUE(type.has_value()) << e.name;
    EXPECT_EQ(TensorTypeName(*type), e.name);
    EXPECT_EQ(BlockShapeOf(*type).elements, e.elements);
    EXPECT_EQ(BlockShapeOf(*type).bytes, e.bytes);
    EXPECT_EQ(RowBytes(*type, 768), 768 / e.elements * e.bytes);
    EXPECT_EQ(RowBytes(*type, 0), 0u);
  }
  for (const uint32_t number : {4u, 5u, 9u, 10u, 11u, 15u, 29u, 31u, 0xffffffffu}) {
    EXPECT_FALSE(TensorTypeFromGguf(number).has_value()) << number;
  }
}

TEST(TensorType, HalfKnownValues) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0400), 0x1p-14f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x3555), 0.333251953125f);
  EXPECT_EQ(HalfToFloat(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7e01)));
  EXPECT_EQ(std::bit_cast<uint32_t>(HalfToFloat(0x8000)), 0x80000000u);
}

// All 65536 halves by the formula of the standard, written another way.
TEST(TensorType, HalfAllValues) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const int exponent = (half >> 10) & 31;
    const int fraction = half & 1023;
    if (exponent == 31) continue;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    const double expected = half & 0x8000 ? -magnitude : magnitude;
    ASSERT_EQ(HalfToFloat(half), expected) << half;
    ASSERT_EQ(kvrelay::testing::FloatToHalf(HalfToFloat(half)), half) << half;
  }
}

TEST(TensorType, RoundingToHalf) {
  using kvrelay::testing::FloatToHalf;
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3c00);             // tie to even, down
  EXPECT_EQ(FloatToHalf(1.0f + 3 * 0x1p-11f), 0x3c02);         // tie to even, up
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above the tie
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0);  // tie to even with zero
  EXPECT_EQ(FloatToHalf(0x1.8p-24f), 2);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_EQ(FloatToHalf(0x1p-14f - 0x1p-26f), 0x0400);  // rounds up into the normals
}

TEST(TensorType, Bf16) {
  EXPECT_EQ(Bf16ToFloat(0x3f80), 1.0f);
  EXPECT_EQ(Bf16ToFloat(0xc049), -3.140625f);
  EXPECT_EQ(kvrelay::testing::FloatToBf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(kvrelay::testing::FloatToBf16(1.0f + 3 * 0x1p-8f), 0x3f82);
}

TEST(TensorType, Q4_1NibbleOrderAndValue) {
  // d = 0.5, m = -1; byte j = (15 - j) in the high nibble, j in the low one.
  std::string block = {'\x00', '\x38', '\x00', '\xbc'};
  for (int j = 0; j < 16; ++j) block.push_back(static_cast<char>((15 - j) << 4 | j));
  const std::vector<float> values = Dequantize(TensorType::kQ4_1, block, 32);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(values[j], 0.5f * j - 1) << j;
    EXPECT_EQ(values[j + 16], 0.5f * (15 - j) - 1) << j;
  }
}

// q * d + m rounded once: with these d and m, rounding the product first gives another value.
TEST(TensorType, Q4_1RoundsOnce) {
  std::mt19937 random(7);
  int differs = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const uint16_t d = 0x0400 + random() % 0x7000;
    const uint16_t m = (random() % 2 << 15) | (0x0400 + random() % 0x7000);
    std::string block(20, '\0');
    std::memcpy(block.data(), &d, 2);
    std::memcpy(block.data() + 2, &m, 2);
    for (int j = 0; j < 16; ++j) block[4 + j] = static_cast<char>(random());
    const std::vector<float> values = Dequantize(TensorType::kQ4_1, block, 32);
    for (int j = 0; j < 16; ++j) {
      // In double the product is exact and the sum has at most 53 bits for these exponents or is rounded far below f32.
      const double exact = double(uint8_t(block[4 + j]) & 15) * HalfToFloat(d) + HalfToFloat(m);
      ASSERT_EQ(values[j], static_cast<float>(exact));
      const volatile float product = float(uint8_t(block[4 + j]) & 15) * HalfToFloat(d);
      differs += product + HalfToFloat(m) != values[j];
    }
  }
  // A product of 4 and 11 bits is exact in f32, so both ways agree: the contract costs nothing.
  EXPECT_EQ(differs, 0);
}

TEST(TensorType, Q8_0) {
  std::string block = {'\x00', '\x34'};  // d = 0.25
  for (int j = 0; j < 32; ++j) block.push_back(static_cast<char>(j * 8 - 128));
  const std::vector<float> values = Dequantize(TensorType::kQ8_0, block, 32);
  for (int j = 0; j < 32; ++j) EXPECT_EQ(values[j], 0.25f * (j * 8 - 128)) << j;
}

TEST(TensorType, Q4_0CountsFromTheMiddle) {
  std::string block = {'\x00', '\x38'};  // d = 0.5
  for (int j = 0; j < 16; ++j) block.push_back(static_cast<char>((15 - j) << 4 | j));
  const std::vector<float> values = Dequantize(TensorType::kQ4_0, block, 32);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(values[j], 0.5f * (j - 8)) << j;
    EXPECT_EQ(values[j + 16], 0.5f * (7 - j)) << j;
  }
}

// Value i is i: its low four bits are i % 16, and the fifth bits are those of the upper half.
TEST(TensorType, Q5FifthBits) {
  std::string q5_0 = {'\x00', '\x3c', '\x00', '\x00', '\xff', '\xff'};                  // d = 1
  std::string q5_1 = {'\x00', '\x3c', '\x00', '\xb8', '\x00', '\x00', '\xff', '\xff'};  // d = 1, m = -0.5
  for (int j = 0; j < 16; ++j) {
    q5_0.push_back(static_cast<char>(j << 4 | j));
    q5_1.push_back(static_cast<char>(j << 4 | j));
  }
  const std::vector<float> middle = Dequantize(TensorType::kQ5_0, q5_0, 32);
  const std::vector<float> minimum = Dequantize(TensorType::kQ5_1, q5_1, 32);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(middle[i], i - 16) << i;
    EXPECT_EQ(minimum[i], i - 0.5f) << i;
  }
}

// Eight 6-bit numbers s and eight m as Q4_K and Q5_K store them: bit by bit, by the positions that the format gives.
std::string PackKScales(const int (&s)[8], const int (&m)[8]) {
  std::string bytes(12, '\0');
  const auto put = [&](int byte, int bit, int number, int number_bit) {
    if (number >> number_bit & 1) bytes[byte] = static_cast<char>(bytes[byte] | 1 << bit);
  };
  for (int i = 0; i < 8; ++i) {
    for (int bit = 0; bit < 6; ++bit) {
      if (i < 4) {
        put(i, bit, s[i], bit);
        put(i + 4, bit, m[i], bit);
      } else {
        put(bit < 4 ? i + 4 : i - 4, bit < 4 ? bit : bit + 2, s[i], bit);
        put(bit < 4 ? i + 4 : i, bit < 4 ? bit + 4 : bit + 2, m[i], bit);
      }
    }
  }
  return bytes;
}

// 256 random values q and 16 scales, put where Q4_K, Q5_K and Q6_K want them, one by one.
struct KBlock {
  explicit KBlock(uint32_t seed, int levels) {
    std::mt19937 random(seed);
    for (int& value : q) value = random() % levels;
    for (int& value : s) value = random() % 64;
    for (int& value : m) value = random() % 64;
  }
  int q[256];
  int s[8], m[8];
};

TEST(TensorType, Q4_K) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const KBlock k(seed, 16);
    // d = 0.25, dmin = 3 * 2^-14.
    std::string block = std::string("\x00\x34\x00\x0a", 4) + PackKScales(k.s, k.m) + std::string(128, '\0');
    for (int i = 0; i < 256; ++i) block[16 + i / 64 * 32 + i % 32] |= k.q[i] << (i / 32 % 2 * 4);
    const std::vector<float> values = Dequantize(TensorType::kQ4_K, block, 256);
    for (int i = 0; i < 256; ++i) {
      ASSERT_EQ(values[i], 0.25f * k.s[i / 32] * k.q[i] - 3 * 0x1p-14f * k.m[i / 32]) << i;
    }
  }
}

TEST(TensorType, Q5_K) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const KBlock k(seed, 32);
    std::string block = std::string("\x00\x34\x00\x0a", 4) + PackKScales(k.s, k.m) + std::string(160, '\0');
    for (int i = 0; i < 256; ++i) {
      block[48 + i / 64 * 32 + i % 32] |= k.q[i] % 16 << (i / 32 % 2 * 4);
      block[16 + i % 32] |= k.q[i] / 16 << (i / 32);
    }
    const std::vector<float> values = Dequantize(TensorType::kQ5_K, block, 256);
    for (int i = 0; i < 256; ++i) {
      ASSERT_EQ(values[i], 0.25f * k.s[i / 32] * k.q[i] - 3 * 0x1p-14f * k.m[i / 32]) << i;
    }
  }
}

TEST(TensorType, Q6_K) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    const KBlock k(trial, 64);
    std::string block(210, '\0');
    for (int i = 0; i < 256; ++i) {
      const int half = i / 128, quarter = i % 128 / 32, j = i % 32;
      block[half * 64 + quarter % 2 * 32 + j] |= k.q[i] % 16 << (quarter / 2 * 4);
      block[128 + half * 32 + j] |= k.q[i] / 16 << (2 * quarter);
    }
    for (int g = 0; g < 16; ++g) block[192 + g] = static_cast<char>(g == 0 ? -128 : g == 1 ? 127 : random());
    block[209] = '\x34';  // d = 0.25
    const std::vector<float> values = Dequantize(TensorType::kQ6_K, block, 256);
    for (int i = 0; i < 256; ++i) {
      ASSERT_EQ(values[i], 0.25f * static_cast<int8_t>(block[192 + i / 16]) * (k.q[i] - 32)) << i;
    }
  }
}

// With scales of many bits the products of the K-quants are still exact, and the sum is rounded once.
TEST(TensorType, KQuantsRoundOnce) {
  std::mt19937 random(8);
  for (const TensorType type : {TensorType::kQ4_K, TensorType::kQ5_K}) {
    for (int trial = 0; trial < 200; ++trial) {
      std::string block(BlockShapeOf(type).bytes, '\0');
      for (char& byte : block) byte = static_cast<char>(random());
      const uint16_t d = 0x2400 + random() % 0x2000, dmin = 0x2400 + random() % 0x2000;
      std::memcpy(&block[0], &d, 2);
      std::memcpy(&block[2], &dmin, 2);
      const std::vector<float> values = Dequantize(type, block, 256);
      for (int i = 0; i < 256; ++i) {
        // Of the first sub-blocks, whose numbers are easy to find.
        if (i / 32 >= 4) break;
        const auto byte = [&](int at) { return static_cast<int>(static_cast<uint8_t>(block[at])); };
        const int b = i / 32, upper = type == TensorType::kQ5_K ? byte(16 + i % 32) >> b & 1 : 0;
        const int low = byte((type == TensorType::kQ5_K ? 48 : 16) + b / 2 * 32 + i % 32) >> (b % 2 * 4) & 15;
        const double exact = double(HalfToFloat(d)) * (byte(4 + b) & 63) * (low + 16 * upper) -
                             double(HalfToFloat(dmin)) * (byte(8 + b) & 63);
        ASSERT_EQ(values[i], static_cast<float>(exact)) << i;
      }
    }
  }
}

// Half a step for values from -1 to 1, and something for the rounding of scales.
float ToleranceOf(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
      return 0.08f;
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
    case TensorType::kQ5_K:
      return 0.04f;
    case TensorType::kQ6_K:
      return 0.02f;
    default:
      return 5e-3f;
  }
}

TEST(TensorType, SeveralBlocksEncodedAndBack) {
  std::mt19937 random(3);
  std::vector<float> values(256 * 3);
  for (float& value : values) value = static_cast<float>(random() % 20001) / 10000 - 1;
  for (const TensorType type : kAllTypes) {
    const std::string bytes = kvrelay::testing::EncodeWeights(type, values);
    const std::vector<float> back = Dequantize(type, bytes, values.size());
    const float tolerance = ToleranceOf(type);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(back[i], values[i], tolerance) << TensorTypeName(type) << " " << i;
      if (type == TensorType::kF32) {
        ASSERT_EQ(back[i], values[i]);
      }
    }
  }
}

TEST(TensorType, EmptyRow) {
  for (const TensorType type : kAllTypes) EXPECT_TRUE(Dequantize(type, "", 0).empty());
}

TEST(TensorTypeDeathTest, OurOwnMistakes) {
  EXPECT_DEATH(RowBytes(TensorType::kQ4_1, 33), "whole blocks");
  EXPECT_DEATH(Dequantize(TensorType::kQ8_0, std::string(33, '\0'), 32), "disagree");
}

}  // namespace
}  // namespace kvrelay::model_file
