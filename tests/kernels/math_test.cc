#include "common/kernels/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kvrelay::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance in units of the last place of the float nearest to `want`.
double Ulps(float got, double want) {
  const float nearest = static_cast<float>(want);
  const double ulp = std::nextafter(std::abs(nearest), kInfinity) - static_cast<double>(std::abs(nearest));
  return std::abs(got - want) / ulp;
}

// Every 251st float of the range, in both directions from zero.
template <class F>
void ForFloats(float low, float high, F check) {
  for (uint32_t bits = 0; bits < 0x7F800000; bits += 251) {
    for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      if (x >= low && x <= high) check(x);
    }
  }
}

TEST(MathTest, ExpIsWithinTwoUlps) {
  double worst = 0;
  float worst_at = 0;
  ForFloats(-87.0f, 88.0f, [&](float x) {
    const double ulps = Ulps(Exp(x), std::exp(static_cast<double>(x)));
    if (ulps > worst) {
      worst = ulps;
      worst_at = x;
    }
  });
  EXPECT_LE(worst, 2.0) << "at " << worst_at;
  RecordProperty("exp_worst_ulps", std::to_string(worst));
}

TEST(MathTest, ExpAtItsEdges) {
  EXPECT_EQ(std::bit_cast<uint32_t>(Exp(0.0f)), 0x3F800000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(Exp(-0.0f)), 0x3F800000u);
  EXPECT_GT(Exp(-87.0f), std::numeric_limits<float>::min());
  EXPECT_EQ(std::bit_cast<uint32_t>(Exp(std::nextafter(-87.0f, -kInfinity))), 0u);
  EXPECT_EQ(std::bit_cast<uint32_t>(Exp(-kInfinity)), 0u);
  EXPECT_LT(Exp(88.0f), kInfinity);
  EXPECT_EQ(Exp(std::nextafter(88.0f, kInfinity)), kInfinity);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Exp(kNan)));
}

TEST(MathTest, LogIsWithinTwoUlps) {
  double worst = 0;
  float worst_at = 0;
  ForFloats(std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(), [&](float x) {
    if (x == 1.0f) return;
    const double ulps = Ulps(Log(x), std::log(static_cast<double>(x)));
    if (ulps > worst) {
      worst = ulps;
      worst_at = x;
    }
  });
  for (float x = 0.9f; x < 1.1f; x = std::nextafter(x, 2.0f)) {  // where the result itself is small
    if (x == 1.0f) continue;
    const double ulps = Ulps(Log(x), std::log(static_cast<double>(x)));
    if (ulps > worst) {
      worst = ulps;
      worst_at = x;
    }
  }
  EXPECT_LE(worst, 2.0) << "at " << worst_at;
  RecordProperty("log_worst_ulps", std::to_string(worst));
}

TEST(MathTest, LogAtItsEdges) {
  EXPECT_EQ(std::bit_cast<uint32_t>(Log(1.0f)), 0u);
  EXPECT_EQ(Log(0.0f), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1.0f)));
  EXPECT_TRUE(std::isnan(Log(kNan)));
}

}  // namespace
}  // namespace kvrelay::kernels
