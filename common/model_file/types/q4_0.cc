// Q4_0: block = f16 d, 16 bytes; value = (q - 8) * d with q in 0..15, which f32 holds exactly. Byte j holds value j in
// its low nibble and value j + 16 in its high one.
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr size_t kElements = 32;
constexpr size_t kBytes = 18;

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t b = 0; b < block_count; ++b, blocks += kBytes, out += kElements) {
    const float d = HalfToFloat(LoadField<uint16_t>(blocks));
    for (size_t j = 0; j < kElements / 2; ++j) {
      const uint8_t pair = LoadField<uint8_t>(blocks + 2 + j);
      out[j] = static_cast<float>((pair & 15) - 8) * d;
      out[j + kElements / 2] = static_cast<float>((pair >> 4) - 8) * d;
    }
  }
}

}  // namespace

const TypeEntry kQ4_0Entry = {TensorType::kQ4_0, "Q4_0", {.elements = kElements, .bytes = kBytes}, Dequantize};

}  // namespace kvrelay::model_file
