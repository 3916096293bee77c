// Q5_1: block = f16 d, f16 m, u32 h, 16 bytes; value = q * d + m with q in 0..31. Byte j holds the low four bits of
// value j in its low nibble and those of value j + 16 in its high one; bit i of h is the fifth bit of value i.
#include <cmath>

#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr size_t kElements = 32;
constexpr size_t kBytes = 24;

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t b = 0; b < block_count; ++b, blocks += kBytes, out += kElements) {
    const float d = HalfToFloat(LoadField<uint16_t>(blocks));
    const float m = HalfToFloat(LoadField<uint16_t>(blocks + 2));
    const uint32_t high = LoadField<uint32_t>(blocks + 4);
    for (size_t j = 0; j < kElements; ++j) {
      const uint8_t pair = LoadField<uint8_t>(blocks + 8 + j % 16);
      const int q = (j < 16 ? pair & 15 : pair >> 4) | static_cast<int>(high >> j & 1) << 4;
      out[j] = std::fma(static_cast<float>(q), d, m);
    }
  }
}

}  // namespace

const TypeEntry kQ5_1Entry = {TensorType::kQ5_1, "Q5_1", {.elements = kElements, .bytes = kBytes}, Dequantize};

}  // namespace kvrelay::model_file
