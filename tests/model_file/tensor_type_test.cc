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

constexpr TensorType kAllTypes[] = {TensorType::kF32, TensorType::kF16, TensorType::kBf16, TensorType::kQ4_1,
                                    TensorType::kQ8_0};

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
  for (const Expected& e : {Expected{0, "F32", 1, 4}, Expected{1, "F16", 1, 2}, Expected{3, "Q4_1", 32, 20},
                            Expected{8, "Q8_0", 32, 34}, Expected{30, "BF16", 1, 2}}) {
    const std::optional<TensorType> type = TensorTypeFromGguf(e.number);
    ASSERT_TRUE(type.has_value()) << e.name;
    EXPECT_EQ(TensorTypeName(*type), e.name);
    EXPECT_EQ(BlockShapeOf(*type).elements, e.elements);
    EXPECT_EQ(BlockShapeOf(*type).bytes, e.bytes);
    EXPECT_EQ(RowBytes(*type, 576), 576 / e.elements * e.bytes);
    EXPECT_EQ(RowBytes(*type, 0), 0u);
  }
  for (const uint32_t number : {2u, 4u, 5u, 6u, 7u, 9u, 12u, 14u, 29u, 31u, 0xffffffffu}) {
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

TEST(TensorType, SeveralBlocksEncodedAndBack) {
  std::mt19937 random(3);
  std::vector<float> values(32 * 5);
  for (float& value : values) value = static_cast<float>(random() % 20001) / 10000 - 1;
  for (const TensorType type : kAllTypes) {
    const std::string bytes = kvrelay::testing::EncodeWeights(type, values);
    const std::vector<float> back = Dequantize(type, bytes, values.size());
    const float tolerance = type == TensorType::kQ4_1 ? 2.0f / 15 / 2 + 2e-3f : 5e-3f;
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
