#include "common/kernels/isa.h"

#include <algorithm>
#include <cfenv>
#include <iterator>
#include <string>

#ifdef KVRELAY_X86_KERNELS
#include <cpuid.h>
#include <xmmintrin.h>
#endif

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/kernels/attention_scratch.h"
#include "common/kernels/kernels.h"
#include "common/kernels/simd/sets.h"

namespace kvrelay::kernels {
namespace {

#ifdef KVRELAY_X86_KERNELS
// Asked of the processor itself: clang 16's __builtin_cpu_supports does not know this name. It needs no registers that
// AVX2 does not need.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
  }
  return "unknown";
}

// The compiler's test covers the operating system too: it asks which registers are saved at a task switch.
bool IsaSupported(Isa isa) {
  if (isa == Isa::kScalar) return true;
#ifdef KVRELAY_X86_KERNELS
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c() && __builtin_cpu_supports("bmi2");
  if (isa == Isa::kAvx2) return avx2;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (isa == Isa::kAvx512) return avx512;
  return avx512 && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

Isa BestIsa() { return *std::find_if(std::rbegin(kAllIsas), std::rend(kAllIsas), IsaSupported); }

absl::StatusOr<Isa> ParseIsa(std::string_view name) {
  if (name == "auto") return BestIsa();
  for (const Isa isa : kAllIsas) {
    if (name != IsaName(isa)) continue;
    if (IsaSupported(isa)) return isa;
    return absl::FailedPreconditionError(
        absl::StrFormat("this CPU or operating system lacks the instruction set \"%s\"; the best here is \"%s\"", name,
                        IsaName(BestIsa())));
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("unknown instruction set \"%s\"; use auto, scalar, avx2, avx512 or avx512vnni", name));
}

const Kernels& KernelsFor(Isa isa) {
  KV_CHECK(IsaSupported(isa), "kernels of an instruction set that this CPU lacks");
#ifdef KVRELAY_X86_KERNELS
  if (isa == Isa::kAvx512Vnni) return kAvx512VnniKernels;
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kScalarKernels;
}

size_t AttentionScratchFloats(int head_dim) {
  return 2 * AttentionBlockFloats(head_dim) + 2 * AttentionSumFloats(head_dim) + kAttentionSubTile * kBlockPositions +
         4 * kAttentionQueries;
}

void ComputeThreadInit() {
#ifdef KVRELAY_X86_KERNELS
  _mm_setcsr(0x1F80);  // the power-on state: all exceptions masked, round to nearest, no flush of denormals
#else
  std::fesetenv(FE_DFL_ENV);
#endif
}

}  // namespace kvrelay::kernels
