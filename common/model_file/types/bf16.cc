// BF16: the upper half of the bits of an f32.
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t i = 0; i < block_count; ++i) out[i] = Bf16ToFloat(LoadField<uint16_t>(blocks + 2 * i));
}

}  // namespace

const TypeEntry kBf16Entry = {TensorType::kBf16, "BF16", {.elements = 1, .bytes = 2}, Dequantize};

}  // namespace kvrelay::model_file
