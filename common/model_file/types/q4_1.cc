// Q4_1: block = f16 d, f16 m, 16 bytes; value = q * d + m with q in 0..15. Byte j holds value j in its low nibble and
// value j + 16 in its high one.
#include <cmath>

#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr size_t kElements = 32;
constexpr size_t kBytes = 20;

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t b = 0; b < block_count; ++b, blocks += kBytes, out += kElements) {
    const float d = HalfToFloat(LoadField<uint16_t>(blocks));
    const float m = HalfToFloat(LoadField<uint16_t>(blocks + 2));
    for (size_t j = 0; j < kElements / 2; ++j) {
      const uint8_t pair = LoadField<uint8_t>(blocks + 4 + j);
      out[j] = std::fma(static_cast<float>(pair & 15), d, m);
      out[j + kElements / 2] = std::fma(static_cast<float>(pair >> 4), d, m);
    }
  }
}

}  // namespace

const TypeEntry kQ4_1Entry = {TensorType::kQ4_1, "Q4_1", {.elements = kElements, .bytes = kBytes}, Dequantize};

}  // namespace kvrelay::model_file
