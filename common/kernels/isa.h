// Instruction sets that the native kernels exist for. All give the same bits; only speed differs.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace kvrelay::kernels {

enum class Isa { kScalar, kAvx2, kAvx512Vnni };

// "scalar", "avx2" (AVX2 + FMA + F16C), "avx512vnni" (AVX-512 F, BW, VL, DQ + VNNI).
std::string_view IsaName(Isa isa);
// Whether this CPU and operating system can run it.
bool IsaSupported(Isa isa);
// The fastest that is supported.
Isa BestIsa();
// "auto" or a name. INVALID_ARGUMENT for an unknown name, FAILED_PRECONDITION for one that this CPU lacks.
absl::StatusOr<Isa> ParseIsa(std::string_view name);

}  // namespace kvrelay::kernels
