// Q8_0: block = f16 d, 32 signed bytes; value = q * d, which f32 holds exactly.
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr size_t kElements = 32;
constexpr size_t kBytes = 34;

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t b = 0; b < block_count; ++b, blocks += kBytes, out += kElements) {
    const float d = HalfToFloat(LoadField<uint16_t>(blocks));
    for (size_t j = 0; j < kElements; ++j) out[j] = static_cast<float>(LoadField<int8_t>(blocks + 2 + j)) * d;
  }
}

}  // namespace

const TypeEntry kQ8_0Entry = {TensorType::kQ8_0, "Q8_0", {.elements = kElements, .bytes = kBytes}, Dequantize};

}  // namespace kvrelay::model_file
