// Q5_K: block = f16 d, f16 dmin, 12 bytes of scales (k_scales.h), 32 bytes h, 128 bytes; eight sub-blocks of 32 values
// d * scale * q - dmin * minimum with q in 0..31, rounded once. Bytes 32g..32g+31 of the 128 hold the low four bits of
// sub-block 2g in their low nibbles and those of sub-block 2g + 1 in their high ones; bit i of h[j] is the fifth bit of
// value j of sub-block i.
#include <cmath>

#include "common/model_file/types/k_scales.h"
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr size_t kElements = 256;
constexpr size_t kBytes = 176;

void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
  for (size_t b = 0; b < block_count; ++b, blocks += kBytes) {
    const float d = HalfToFloat(LoadField<uint16_t>(blocks));
    const float d_minimum = HalfToFloat(LoadField<uint16_t>(blocks + 2));
    for (size_t i = 0; i < 8; ++i, out += 32) {
      const KScale k = LoadKScale(blocks + 4, i);
      // Products of 11 and 6 bits: exact.
      const float scale = d * static_cast<float>(k.scale);
      const float minimum = d_minimum * static_cast<float>(k.minimum);
      for (size_t j = 0; j < 32; ++j) {
        const uint8_t pair = LoadField<uint8_t>(blocks + 48 + i / 2 * 32 + j);
        const int high = LoadField<uint8_t>(blocks + 16 + j) >> i & 1;
        const int q = (i % 2 == 0 ? pair & 15 : pair >> 4) | high << 4;
        out[j] = std::fma(static_cast<float>(q), scale, -minimum);
      }
    }
  }
}

}  // namespace

const TypeEntry kQ5_KEntry = {TensorType::kQ5_K, "Q5_K", {.elements = kElements, .bytes = kBytes}, Dequantize};

}  // namespace kvrelay::model_file
