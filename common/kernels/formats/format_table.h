// One row per weight type that matrices can have: how its file rows become units (packed_layout.h), how they are read
// back, and which kernel multiplies them. A new type is one more file here (or one more row in it), one more row in
// format_table.cc, and its kernel.
#pragma once

#include <cstddef>

#include "common/kernels/kernel_types.h"
#include "common/model_file/tensor_type.h"

namespace kvrelay::kernels {

struct PackedFormat {
  model_file::TensorType type;
  // One of the two: integer products with quantized activations, or float ones.
  Kernels::QuantMatmul Kernels::*quant_matmul;
  Kernels::FloatMatmul Kernels::*float_matmul;

  // Bytes of a unit before it is rounded up to whole vectors.
  size_t (*unit_bytes)(size_t inputs);
  // Puts a file row at row `row` (0..15) of a unit, whose memory was zero.
  void (*pack_row)(const std::byte* source, size_t inputs, size_t row, std::byte* unit);
  // The f32 values of a row, equal to those of its file row.
  void (*unpack_row)(const std::byte* unit, size_t inputs, size_t row, float* out);
};

extern const PackedFormat kF32Format;
extern const PackedFormat kF16Format;
extern const PackedFormat kBf16Format;
extern const PackedFormat kQ4_0Format;
extern const PackedFormat kQ4_1Format;
extern const PackedFormat kQ5_0Format;
extern const PackedFormat kQ5_1Format;
extern const PackedFormat kQ8_0Format;
extern const PackedFormat kQ4_KFormat;
extern const PackedFormat kQ5_KFormat;
extern const PackedFormat kQ6_KFormat;

const PackedFormat& FormatOf(model_file::TensorType type);

}  // namespace kvrelay::kernels
