#include "common/kernels/openblas_matmul.h"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/kernels/isa.h"

// OpenBLAS's own choice of kernels, in builds that have those of many CPUs; not in its header.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_quit();
__attribute__((weak)) void gotoblas_dynamic_init();
}

namespace kvrelay::kernels {
namespace {

constexpr int kMinRows = 16;
constexpr char kCoreVariable[] = "OPENBLAS_CORETYPE";

// Cores whose kernels use AVX2 or AVX-512.
constexpr std::array<std::string_view, 7> kVectorCores = {
    "Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "Sapphirerapids", "Cascadelake"};

void Sgemm(const float* x, int rows, const SgemmCall& call, float* out, int out_stride, bool add) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, call.outputs, call.inputs, 1.0f, x, call.inputs,
              call.weights, call.inputs, add ? 1.0f : 0.0f, out, out_stride);
}

bool HasVectorCore() {
  const std::string_view core = openblas_get_corename();
  const auto same = [&](std::string_view known) {
    return std::equal(core.begin(), core.end(), known.begin(), known.end(),
                      [](char a, char b) { return std::tolower(a) == std::tolower(b); });
  };
  return std::any_of(kVectorCores.begin(), kVectorCores.end(), same);
}

// OpenBLAS goes by the CPU's model number when it is loaded; a CPU newer than it gets one of a few old SSE cores, many
// times slower. What the CPU can do is known better here, so OpenBLAS is told to choose once more, unless the
// environment has told it what to take.
void ChooseCoreByIsa() {
  if (HasVectorCore() || std::getenv(kCoreVariable) != nullptr || gotoblas_dynamic_quit == nullptr ||
      gotoblas_dynamic_init == nullptr || !IsaSupported(Isa::kAvx2)) {
    return;
  }
  setenv(kCoreVariable, IsaSupported(Isa::kAvx512) ? "SkylakeX" : "Haswell", 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(kCoreVariable);
}

bool SmallProductIsRight() {
  constexpr int kRows = 5;
  constexpr int kInputs = 96;
  constexpr int kOutputs = 32;
  std::vector<float> x(kRows * kInputs), weights(kOutputs * kInputs), out(kRows * kOutputs);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 50.0f;
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<float>(static_cast<int>(i * 53 % 89) - 44) / 44.0f;
  SgemmPadded({x.data(), kRows, kInputs, weights.data(), kOutputs, out.data(), kOutputs, false});
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kOutputs; ++n) {
      double sum = 0;
      double magnitude = 0;
      for (int k = 0; k < kInputs; ++k) {
        const double product = static_cast<double>(x[r * kInputs + k]) * weights[n * kInputs + k];
        sum += product;
        magnitude += std::abs(product);
      }
      // Each of the kInputs additions rounds by at most half a unit of a partial sum that never exceeds `magnitude`.
      const double tolerance = kInputs * std::numeric_limits<float>::epsilon() * magnitude;
      if (!(std::abs(out[r * kOutputs + n] - sum) <= tolerance)) return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> InitOpenBlas() {
  ChooseCoreByIsa();
  openblas_set_num_threads(1);
  const std::string_view core = openblas_get_corename();
  if (!HasVectorCore()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("OpenBLAS took the core \"%s\", which has no AVX2 or AVX-512 kernels; use the native matmul "
                        "backend, or set OPENBLAS_CORETYPE to this CPU's core",
                        core));
  }
  if (!SmallProductIsRight()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("OpenBLAS (core %s) computed a small product wrongly; use the native matmul backend", core));
  }
  return absl::StrFormat("openblas %s", core);
}

void SgemmPadded(const SgemmCall& call) {
  if (call.rows >= kMinRows) return Sgemm(call.x, call.rows, call, call.out, call.out_stride, call.add);
  // Kept per thread: they grow to the largest matrix once, then no call allocates.
  thread_local std::vector<float> x;
  thread_local std::vector<float> out;
  const size_t inputs = static_cast<size_t>(call.inputs);
  const size_t outputs = static_cast<size_t>(call.outputs);
  x.assign(kMinRows * inputs, 0.0f);
  out.resize(std::max(out.size(), kMinRows * outputs));
  std::memcpy(x.data(), call.x, static_cast<size_t>(call.rows) * inputs * sizeof(float));
  Sgemm(x.data(), kMinRows, call, out.data(), call.outputs, false);
  for (int r = 0; r < call.rows; ++r) {
    const float* from = out.data() + static_cast<size_t>(r) * outputs;
    float* to = call.out + static_cast<size_t>(r) * static_cast<size_t>(call.out_stride);
    for (size_t n = 0; n < outputs; ++n) to[n] = call.add ? to[n] + from[n] : from[n];
  }
}

}  // namespace kvrelay::kernels
