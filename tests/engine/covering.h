// Sets of cases in which every combination of values of any t dimensions occurs at least once.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "tests/engine/same_bits.h"

namespace kvrelay::testing {

// Instruction sets that this machine runs, scalar included.
std::vector<kernels::Isa> SupportedIsas();

// A t-way covering set over way, chunk, threads, batch, instruction set and KV type, built greedily; the same every
// time. With types in `weights`, over these too, on tiny models.
std::vector<BitsCase> CoveringCases(int t, absl::Span<const kernels::Isa> isas, bool with_scalar,
                                    absl::Span<const model_file::TensorType> weights = {});

}  // namespace kvrelay::testing
