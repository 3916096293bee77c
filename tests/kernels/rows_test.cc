// Row-local kernels: quantization, normalization, activation, rotation.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/kernels/math.h"
#include "tests/kernels/kernel_sets.h"
#include "tests/kernels/test_data.h"
#include "tests/reference/reference_kernels.h"

namespace kvrelay::kernels::testing {
namespace {

using reference::Bounded;
using reference::QuantizedActivations;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(RowsTest, QuantizeRowsFollowsTheContract) {
  std::mt19937 random(1);
  for (const Values values : kAllValues) {
    for (const int inputs : {32, 96, 576}) {
      for (const int rows : {1, 2, 5}) {
        const auto x = RandomFloats(random, static_cast<size_t>(rows) * inputs, values);
        const QuantizedActivations want = reference::Quantize(x, rows, inputs);
        for (const KernelSet& set : SetsUnderTest()) {
          SCOPED_TRACE(set.name);
          QuantizedActivations got(rows, inputs);
          set.kernels->quantize_rows(x.data(), rows, inputs, got.View());
          EXPECT_EQ(got.q, want.q);
          EXPECT_EQ(got.sums, want.sums);
          EXPECT_TRUE(SameBits(got.d.data(), want.d.data(), want.d.size()));
          EXPECT_TRUE(SameBits(got.d_sum.data(), want.d_sum.data(), want.d_sum.size()));
        }
      }
    }
  }
}

TEST(RowsTest, QuantizeRoundsHalfToEven) {
  std::vector<float> x(32);
  for (int i = 0; i < 32; ++i) x[i] = static_cast<float>(i) - 15.5f;
  x[0] = 127.0f;  // so that d is 1
  for (const KernelSet& set : SetsUnderTest()) {
    SCOPED_TRACE(set.name);
    QuantizedActivations got(1, 32);
    set.kernels->quantize_rows(x.data(), 1, 32, got.View());
    EXPECT_EQ(got.d[0], 1.0f);
    for (int i = 1; i < 32; ++i) {
      EXPECT_EQ(got.q[i] % 2, 0) << x[i];
      EXPECT_EQ(std::abs(got.q[i] - x[i]), 0.5f);
    }
  }
}

// A value that is not finite must not be quantized into a finite one.
TEST(RowsTest, QuantizeKeepsWhatIsNotFinite) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const int at : {0, 7, 15, 16, 31}) {
      std::vector<float> x(64, 1.0f);
      x[at] = bad;
      for (const KernelSet& set : SetsUnderTest()) {
        QuantizedActivations got(1, 64);
        set.kernels->quantize_rows(x.data(), 1, 64, got.View());
        EXPECT_FALSE(std::isfinite(got.d[0])) << set.name << " " << bad << " at " << at;
        EXPECT_EQ(got.d[1], 1.0f / 127.0f);
      }
    }
  }
}

TEST(RowsTest, RmsNormFollowsTheContract) {
  std::mt19937 random(2);
  for (const Values values : {Values::kNormal, Values::kZeros, Values::kDenormal, Values::kSaturated}) {
    for (const int n : {1, 15, 16, 17, 64, 100, 576}) {
      const auto x = RandomFloats(random, n, values);
      const auto weight = RandomFloats(random, n, Values::kNormal);
      for (const KernelSet& set : SetsUnderTest()) {
        SCOPED_TRACE(set.name);
        std::vector<float> got(n + 1, -7.0f);
        set.kernels->rms_norm(x.data(), weight.data(), n, 1e-5f, got.data());
        EXPECT_EQ(got[n], -7.0f) << "wrote past the row";
        std::vector<float> in_place = x;
        set.kernels->rms_norm(in_place.data(), weight.data(), n, 1e-5f, in_place.data());
        EXPECT_TRUE(SameBits(in_place.data(), got.data(), n));
        for (int i = 0; i < n; ++i) {
          const float want = reference::RmsNormContract(x, weight, 1e-5f, i);
          ASSERT_TRUE(SameBits(&got[i], &want, 1)) << n << ", value " << i;
          const Bounded exact = reference::RmsNormDouble(x, weight, 1e-5f, i);
          ASSERT_NEAR(got[i], exact.value, exact.tolerance);
        }
      }
    }
  }
}

TEST(RowsTest, SwiGluIsTheSameEverywhere) {
  std::mt19937 random(3);
  const KernelSet scalar = SetsUnderTest().front();
  for (const int n : {1, 16, 33, 1536}) {
    auto gate = RandomFloats(random, n, Values::kNormal);
    const auto up = RandomFloats(random, n, Values::kNormal);
    for (size_t i = 0; i < gate.size(); i += 3) gate[i] *= 40.0f;  // past both ends of exp
    std::vector<float> want(n);
    scalar.kernels->swiglu(gate.data(), up.data(), n, want.data());
    for (int i = 0; i < n; ++i) {
      const Bounded exact = reference::SwiGluDouble(gate[i], up[i]);
      ASSERT_NEAR(want[i], exact.value, exact.tolerance) << gate[i];
    }
    for (const KernelSet& set : SetsUnderTest()) {
      std::vector<float> got(n + 1, -7.0f);
      set.kernels->swiglu(gate.data(), up.data(), n, got.data());
      EXPECT_TRUE(SameBits(got.data(), want.data(), n)) << set.name;
      EXPECT_EQ(got[n], -7.0f) << "wrote past the row";
    }
  }
}

// With up = gate = x the result shows exp(-x), so this compares every vector exp with the scalar one.
TEST(RowsTest, VectorExpIsTheScalarExp) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x7F800000; bits += 9973) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-x.back());
  }
  for (const float edge : {-87.0f, 87.0f, 88.0f, -88.0f}) {
    x.insert(x.end(), {edge, std::nextafter(edge, kInfinity), std::nextafter(edge, -kInfinity)});
  }
  const std::vector<float> ones(x.size(), 1.0f);
  for (const KernelSet& set : SetsUnderTest()) {
    std::vector<float> got(x.size());
    set.kernels->swiglu(x.data(), ones.data(), static_cast<int>(x.size()), got.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = x[i] / (1.0f + Exp(-x[i]));
      ASSERT_TRUE(SameBits(&got[i], &want, 1)) << set.name << ": " << x[i];
    }
    std::vector<float> scaled(x.size() + 1, -7.0f);
    for (const auto& [from, scale] : {std::pair{0.0f, 1.0f}, {1.5f, 0.7f}, {-3e38f, 1e-38f}}) {
      set.kernels->exp_scaled(x.data(), static_cast<int>(x.size()), from, scale, scaled.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const float want = Exp((x[i] - from) / scale);
        ASSERT_TRUE(SameBits(&scaled[i], &want, 1)) << set.name << ": " << x[i];
      }
      EXPECT_EQ(scaled.back(), -7.0f) << "wrote past the row";
    }
    const float nan = kNan;
    set.kernels->swiglu(&nan, ones.data(), 1, got.data());
    EXPECT_TRUE(std::isnan(got[0])) << set.name;
  }
}

TEST(RowsTest, RopeRotatesAdjacentPairs) {
  std::mt19937 random(4);
  for (const int n : {2, 6, 16, 64, 128}) {
    const auto x = RandomFloats(random, n, Values::kWideRange);
    std::vector<float> cos, sin;
    for (int i = 0; i < n / 2; ++i) {
      cos.push_back(static_cast<float>(std::cos(i * 1.7)));
      sin.push_back(static_cast<float>(std::sin(i * 1.7)));
    }
    for (const KernelSet& set : SetsUnderTest()) {
      std::vector<float> got = x;
      set.kernels->rope(got.data(), cos.data(), sin.data(), n);
      for (int i = 0; i < n / 2; ++i) {
        const float want[2] = {std::fma(x[2 * i], cos[i], -(x[2 * i + 1] * sin[i])),
                               std::fma(x[2 * i], sin[i], x[2 * i + 1] * cos[i])};
        ASSERT_TRUE(SameBits(&got[2 * i], want, 2)) << set.name << ", pair " << i;
      }
    }
  }
}

}  // namespace
}  // namespace kvrelay::kernels::testing
