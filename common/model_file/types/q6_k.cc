// Q6_K: block = 128 bytes l, 64 bytes h, 16 signed bytes s, f16 d; value = d * scale * (q - 32) with q in 0..63 and one
// scale per 16 values, which f32 holds exactly. Each half of 128 values has 64 bytes of l and 32 of h: values j, j +
// 32, j + 64, j + 96 (j < 32) have their low four bits in l[j] low, l[j + 32] low, l[j] high, l[j + 32] high, and their
// upper two in the bit pairs 0, 2, 4, 6 of h[j].
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr size_t kElements = 256;
constexpr size_t kBytes = 210;

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t b = 0; b < block_count; ++b, blocks += kBytes, out += kElements) {
    const float d = HalfToFloat(LoadField<uint16_t>(blocks + 208));
    for (size_t i = 0; i < kElements; ++i) {
      const size_t half = i / 128, quarter = i % 128 / 32, j = i % 32;
      const uint8_t low = LoadField<uint8_t>(blocks + half * 64 + quarter % 2 * 32 + j);
      const uint8_t high = LoadField<uint8_t>(blocks + 128 + half * 32 + j);
      const int q = (quarter < 2 ? low & 15 : low >> 4) | (high >> 2 * quarter & 3) << 4;
      // Products of 11, 8 and 6 bits whose magnitudes need 24 at most: exact.
      out[i] = d * static_cast<float>(LoadField<int8_t>(blocks + 192 + i / 16)) * static_cast<float>(q - 32);
    }
  }
}

}  // namespace

const TypeEntry kQ6_KEntry = {TensorType::kQ6_K, "Q6_K", {.elements = kElements, .bytes = kBytes}, Dequantize};

}  // namespace kvrelay::model_file
