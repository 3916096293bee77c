#include "common/kernels/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "common/kernels/kernels.h"

namespace kvrelay::kernels {
namespace {

using ::testing::HasSubstr;

// The kernel's own words about the CPU, one flag each.
bool CpuHas(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
      if (word == flag) return true;
    }
    return false;
  }
  return false;
}

TEST(IsaTest, DetectsWhatTheKernelReports) {
  const bool avx2 = CpuHas("avx2") && CpuHas("fma") && CpuHas("f16c") && CpuHas("bmi2");
  EXPECT_TRUE(IsaSupported(Isa::kScalar));
  EXPECT_EQ(IsaSupported(Isa::kAvx2), avx2);
  const bool avx512 = avx2 && CpuHas("avx512f") && CpuHas("avx512bw") && CpuHas("avx512vl") && CpuHas("avx512dq");
  EXPECT_EQ(IsaSupported(Isa::kAvx512), avx512);
  EXPECT_EQ(IsaSupported(Isa::kAvx512Vnni), avx512 && CpuHas("avx512_vnni"));
}

TEST(IsaTest, ForcedSetIsTheOneThatRuns) {
  for (const Isa isa : kAllIsas) {
    if (!IsaSupported(isa)) continue;
    EXPECT_EQ(KernelsFor(isa).isa, isa) << IsaName(isa);
  }
}

TEST(IsaTest, ParsesNames) {
  EXPECT_EQ(*ParseIsa("auto"), BestIsa());
  EXPECT_EQ(*ParseIsa("scalar"), Isa::kScalar);
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni}) {
    const auto parsed = ParseIsa(IsaName(isa));
    if (IsaSupported(isa)) {
      EXPECT_EQ(*parsed, isa);
    } else {
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(std::string(IsaName(isa))));
    }
  }
  for (const char* unknown : {"", "AVX2", "sse", "avx512f"}) {
    EXPECT_EQ(ParseIsa(unknown).status().code(), absl::StatusCode::kInvalidArgument) << unknown;
  }
}

TEST(IsaTest, ComputeThreadInitKeepsDenormals) {
  ComputeThreadInit();
  volatile float smallest = std::numeric_limits<float>::min();
  volatile float half = smallest * 0.5f;
  EXPECT_GT(half, 0.0f);
  EXPECT_EQ(half * 2.0f, smallest);
}

}  // namespace
}  // namespace kvrelay::kernels
