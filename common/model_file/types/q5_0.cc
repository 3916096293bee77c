// Q5_0: block = f16 d, u32 h, 16 bytes; value = (q - 16) * d with q in 0..31, which f32 holds exactly. Byte j holds the
// low four bits of value j in its low nibble and those of value j + 16 in its high one; bit i of h is the fifth bit of
// value i.
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr size_t kElements = 32;
constexpr size_t kBytes = 22;

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t b = 0; b < block_count; ++b, blocks += kBytes, out += kElements) {
    const float d = HalfToFloat(LoadField<uint16_t>(blocks));
    const uint32_t high = LoadField<uint32_t>(blocks + 2);
    for (size_t j = 0; j < kElements; ++j) {
      const uint8_t pair = LoadField<uint8_t>(blocks + 6 + j % 16);
      const int q = (j < 16 ? pair & 15 : pair >> 4) | static_cast<int>(high >> j & 1) << 4;
      out[j] = static_cast<float>(q - 16) * d;
    }
  }
}

}  // namespace

const TypeEntry kQ5_0Entry = {TensorType::kQ5_0, "Q5_0", {.elements = kElements, .bytes = kBytes}, Dequantize};

}  // namespace kvrelay::model_file
