// F16: IEEE binary16.
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t i = 0; i < block_count; ++i) out[i] = HalfToFloat(LoadField<uint16_t>(blocks + 2 * i));
}

}  // namespace

const TypeEntry kF16Entry = {TensorType::kF16, "F16", {.elements = 1, .bytes = 2}, Dequantize};

}  // namespace kvrelay::model_file
