// Turns f32 values into the bytes of a stored element type: what a converter does, kept simple.
//
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "common/model_file/tensor_type.h"

namespace kvrelay::testing {

// Round to nearest even; too large becomes infinity, NaN stays NaN.
uint16_t FloatToHalf(float value);
uint16_t FloatToBf16(float value);

// REQUIRES: whole blocks, finite values.
std::string EncodeWeights(model_file::TensorType type, absl::Span<const float> values);

}  // namespace kvrelay::testing
