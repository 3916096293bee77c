// F32: the values themselves.
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  if (block_count > 0) std::memcpy(out, blocks, block_count * sizeof(float));
}

}  // namespace

const TypeEntry kF32Entry = {TensorType::kF32, "F32", {.elements = 1, .bytes = 4}, Dequantize};

}  // namespace kvrelay::model_file
