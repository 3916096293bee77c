#include "common/model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvrelay::model {
namespace {

// The C library is the oracle here; production code must not depend on it.
TEST(RopeTable, AgreesWithTheCLibrary) {
  for (double theta : {10000.0, 100000.0, 500000.0}) {
    const RopeTable table = MakeRopeTable(8192, 64, theta);
    ASSERT_EQ(table.cos.size(), size_t{8192 * 32});
    for (int p : {0, 1, 2, 63, 64, 511, 512, 700, 4095, 8191})
      for (int i = 0; i < 32; ++i) {
        const double angle = p * std::pow(theta, -2.0 * i / 64);
        EXPECT_NEAR(table.cos[p * 32 + i], std::cos(angle), 1e-7) << p << " " << i;
        EXPECT_NEAR(table.sin[p * 32 + i], std::sin(angle), 1e-7) << p << " " << i;
      }
  }
}

TEST(RopeTable, PositionZeroDoesNotTurn) {
  const RopeTable table = MakeRopeTable(1, 16, 10000);
  for (float c : table.cos) EXPECT_EQ(c, 1.0f);
  for (float s : table.sin) EXPECT_EQ(s, 0.0f);
}

// Values of transformers 5.24 (modeling_rope_utils): 1 / (theta^(2i / dims) * inv_freq[i]).
TEST(RopeScaling, FormulasAreThoseOfTransformers) {
  const RopeScaling llama3 = Llama3Scaling(16, 100, 8, 1, 4, 64);
  const double expected_llama3[] = {1, 1, 1.29398, 2.76517, 7.66739, 8, 8, 8};
  const RopeScaling yarn = YarnScaling(16, 100, 4, 32, 1, 512);
  const double expected_yarn[] = {1, 1, 1.12, 1.27273, 1.47368, 1.75, 2.15385, 2.8};
  ASSERT_EQ(llama3.divisors.size(), 8u);
  ASSERT_EQ(yarn.divisors.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(llama3.divisors[i], expected_llama3[i], 1e-5 * expected_llama3[i]) << i;
    EXPECT_NEAR(yarn.divisors[i], expected_yarn[i], 1e-5 * expected_yarn[i]) << i;
  }
  EXPECT_EQ(llama3.magnitude, 1);
  EXPECT_NEAR(yarn.magnitude, 1.138629436111989, 1e-9);
}

TEST(RopeTable, ScalingDividesAnglesAndMultipliesValues) {
  const RopeTable plain = MakeRopeTable(9, 4, 10000);
  const RopeTable scaled = MakeRopeTable(9, 4, 10000, {.divisors = {4, 1}, .magnitude = 2});
  for (int p = 0; p < 2; ++p) {
    EXPECT_EQ(scaled.cos[size_t(4 * p) * 2], 2 * plain.cos[size_t(p) * 2]) << p;
    EXPECT_EQ(scaled.sin[size_t(p) * 2 + 1], 2 * plain.sin[size_t(p) * 2 + 1]) << p;
  }
}

}  // namespace
}  // namespace kvrelay::model
