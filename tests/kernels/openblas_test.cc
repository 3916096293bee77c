// The OpenBLAS backend against sums in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/kernels/kernel_sets.h"
#include "tests/kernels/test_data.h"
#include "tests/reference/reference_kernels.h"
#include "tests/testing/encode_weights.h"

namespace kvrelay::kernels::testing {
namespace {

using model_file::TensorType;

class OpenBlasTest : public ::testing::TestWithParam<TensorType> {
 protected:
  static constexpr int kOutputs = 75;
  static constexpr int kUnits = 5;
  static constexpr int kStride = kUnits * kUnitRows;
  static constexpr int kInputs = 256;

  OpenBlasTest()
      : random_(11),
        packed_(GetParam(), MatmulBackend::kOpenBlas, kInputs,
                RandomFileRows(random_, GetParam(), kOutputs, kInputs, Values::kNormal)) {}

  static void SetUpTestSuite() {
    const auto name = InitMatmulBackend(MatmulBackend::kOpenBlas, BestIsa());
    ASSERT_TRUE(name.ok()) << name.status();
    EXPECT_THAT(*name, ::testing::StartsWith("openblas "));
  }

  void Check(const std::vector<float>& x, int rows, const std::vector<float>& out, float before) {
    std::vector<float> weights(kInputs);
    for (int n = 0; n < kOutputs; ++n) {
      model_file::DequantizeRow(GetParam(), packed_.rows[n], absl::MakeSpan(weights));
      const auto bytes = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(weights.data()), kInputs * 4);
      for (int row = 0; row < rows; ++row) {
        const auto exact =
            reference::DotDouble(TensorType::kF32, bytes, absl::MakeConstSpan(x).subspan(row * kInputs, kInputs));
        ASSERT_NEAR(out[row * kStride + n], exact.value + before, exact.tolerance + 1e-6 * std::abs(before))
            << "row " << row << " of " << rows << ", output " << n;
      }
    }
  }

  std::mt19937 random_;
  PackedMatrix packed_;
};

TEST_P(OpenBlasTest, AnyNumberOfRowsAndAnyRange) {
  const Kernels& kernels = KernelsFor(Isa::kScalar);
  EXPECT_FALSE(WantsQuantized(packed_.matrix));
  for (const int rows : {1, 2, 15, 16, 17, 40}) {
    const auto x = RandomFloats(random_, static_cast<size_t>(rows) * kInputs, Values::kNormal);
    for (const float before : {0.0f, 2.0f}) {
      std::vector<float> out(static_cast<size_t>(rows) * kStride, before);
      for (int unit = 0; unit < kUnits; unit += 2) {
        Matmul(kernels, packed_.matrix, {rows, kInputs, x.data(), {}}, unit, std::min(unit + 2, kUnits), out.data(),
               kStride, before != 0);
      }
      Check(x, rows, out, before);
    }
  }
}

TEST_P(OpenBlasTest, ThreadsShareOneMatrix) {
  const auto x = RandomFloats(random_, 3 * kInputs, Values::kNormal);
  std::vector<float> out(3 * kStride);
  std::vector<std::thread> threads;
  for (int unit = 0; unit < kUnits; ++unit) {
    threads.emplace_back([&, unit] {
      Matmul(KernelsFor(Isa::kScalar), packed_.matrix, {3, kInputs, x.data(), {}}, unit, unit + 1, out.data(), kStride,
             false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Check(x, 3, out, 0);
}

// What OpenBLAS took is settled when it is loaded: so each looks at a process of its own.
void StartWithAnOldCore() {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("OPENBLAS_CORETYPE", "Prescott", 1);
}

TEST(OpenBlasCore, IsChosenByTheInstructionSetOnACpuThatOpenBlasDoesNotKnow) {
  if (!IsaSupported(Isa::kAvx2)) GTEST_SKIP() << "there is no better core for this CPU";
  StartWithAnOldCore();
  EXPECT_EXIT(
      {
        unsetenv("OPENBLAS_CORETYPE");
        std::cerr << InitMatmulBackend(MatmulBackend::kOpenBlas, BestIsa()).value_or("refused");
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "^openblas (SkylakeX|Haswell)$");
  unsetenv("OPENBLAS_CORETYPE");
}

TEST(OpenBlasCore, IsRefusedIfTheEnvironmentAsksForAnOldOne) {
  StartWithAnOldCore();
  EXPECT_EXIT(
      {
        std::cerr << InitMatmulBackend(MatmulBackend::kOpenBlas, BestIsa()).status();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "FAILED_PRECONDITION.*Prescott.*set OPENBLAS_CORETYPE");
  unsetenv("OPENBLAS_CORETYPE");
}

INSTANTIATE_TEST_SUITE_P(Types, OpenBlasTest, ::testing::ValuesIn(kvrelay::testing::kAllTypes),
                         [](const auto& info) { return std::string(model_file::TensorTypeName(info.param)); });

}  // namespace
}  // namespace kvrelay::kernels::testing
