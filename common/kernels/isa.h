// Names and detection of the instruction sets that the native kernels exist for.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/kernels/kernel_types.h"

namespace kvrelay::kernels {

// All of them, slowest first.
inline constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni};

// "scalar", "avx2" (AVX2 + FMA + F16C), "avx512" (AVX-512 F, BW, VL, DQ), "avx512vnni" (that + VNNI).
std::string_view IsaName(Isa isa);
// Whether this CPU and operating system can run it.
bool IsaSupported(Isa isa);
// The fastest that is supported.
Isa BestIsa();
// "auto" or a name. INVALID_ARGUMENT for an unknown name, FAILED_PRECONDITION for one that this CPU lacks.
absl::StatusOr<Isa> ParseIsa(std::string_view name);

}  // namespace kvrelay::kernels
