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

}  // namespace
}  // namespace kvrelay::model
