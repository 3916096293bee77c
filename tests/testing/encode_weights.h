// Turns f32 values into the bytes of a stored element type: what a converter does, kept simple.
//
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "common/model_file/tensor_type.h"

namespace kvrelay::testing {

// Every type that a file may have.
inline constexpr model_file::TensorType kAllTypes[] = {
    model_file::TensorType::kF32,  model_file::TensorType::kF16,  model_file::TensorType::kBf16,
    model_file::TensorType::kQ4_0, model_file::TensorType::kQ4_1, model_file::TensorType::kQ5_0,
    model_file::TensorType::kQ5_1, model_file::TensorType::kQ8_0, model_file::TensorType::kQ4_K,
    model_file::TensorType::kQ5_K, model_file::TensorType::kQ6_K};

// Round to nearest even; too large becomes infinity, NaN stays NaN.
uint16_t FloatToHalf(float value);
uint16_t FloatToBf16(float value);

// REQUIRES: whole blocks, finite values.
std::string EncodeWeights(model_file::TensorType type, absl::Span<const float> values);

}  // namespace kvrelay::testing
