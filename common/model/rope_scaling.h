// How a model's file says that its rotary positions are stretched: metadata, a tensor of divisors, or both.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/model/rope_table.h"
#include "common/model_file/model_file.h"

namespace kvrelay::model {

// [rope_dims / 2] F32: the divisor of each pair's angle. Files of Llama 3.1 and later have it.
inline constexpr char kRopeDivisorsTensor[] = "rope_freqs.weight";

// Reads `prefix` + "rope.scaling.*" (types none, linear, llama3, yarn) and the tensor; what both say is multiplied.
// INVALID_ARGUMENT naming the key or tensor for a value out of range, UNIMPLEMENTED for a type or option that is not
// known. REQUIRES: rope_dims even, theta > 1.
absl::StatusOr<RopeScaling> ReadRopeScaling(const model_file::ModelFile& file, const std::string& prefix, int rope_dims,
                                            double theta, int context_length);

}  // namespace kvrelay::model
