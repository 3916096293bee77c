// Q4_K and Q5_K: block = f16 d, f16 dmin, 12 bytes of scales, 32 bytes h (Q5_K), 128 bytes; eight sub-blocks of 32
// values d * scale * q - dmin * minimum, rounded once. Bytes 32g..32g+31 of the 128 hold the low four bits of sub-block
// 2g in their low nibbles and those of sub-block 2g + 1 in their high ones; bit i of h[j] is the fifth bit of value j
// of sub-block i.
//
// Scales and minimums: eight pairs of 6-bit numbers. Pairs 0..3 are the low six bits of bytes 0..3 and 4..7; pairs 4..7
// have their low four bits in bytes 8..11 (scale low, minimum high) and their upper two in the top of bytes 0..3 and
// 4..7.
#pragma once

#include <cmath>

#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {

struct KScale {
  uint8_t scale;
  uint8_t minimum;
};

// What follows is of sub-block `i` (0..7) of a block.

inline KScale LoadKScale(const std::byte* block, size_t i) {
  const auto at = [&](size_t j) { return LoadField<uint8_t>(block + 4 + j); };
  if (i < 4) return {static_cast<uint8_t>(at(i) & 63), static_cast<uint8_t>(at(i + 4) & 63)};
  return {static_cast<uint8_t>((at(i + 4) & 15) | (at(i - 4) >> 6) << 4),
          static_cast<uint8_t>(at(i + 4) >> 4 | (at(i) >> 6) << 4)};
}

template <int kBits>
struct KBlock {
  static constexpr size_t kElements = 256;
  static constexpr size_t kFifthBits = 16;
  static constexpr size_t kNibbles = kFifthBits + (kBits == 5 ? 32 : 0);
  static constexpr size_t kBytes = kNibbles + kElements / 2;

  static uint8_t Quant(const std::byte* block, size_t i, size_t j) {
    const auto pair = LoadField<uint8_t>(block + kNibbles + i / 2 * 32 + j);
    const int low = i % 2 == 0 ? pair & 15 : pair >> 4;
    const int fifth = kBits == 5 ? LoadField<uint8_t>(block + kFifthBits + j) >> i & 1 : 0;
    return static_cast<uint8_t>(low | fifth << 4);
  }

  static void Dequantize(const std::byte* blocks, size_t block_count, float* out) {
    for (size_t b = 0; b < block_count; ++b, blocks += kBytes) {
      const float d = HalfToFloat(LoadField<uint16_t>(blocks));
      const float d_minimum = HalfToFloat(LoadField<uint16_t>(blocks + 2));
      for (size_t i = 0; i < 8; ++i, out += 32) {
        const KScale k = LoadKScale(blocks, i);
        // Products of 11 and 6 bits: exact.
        const float scale = d * static_cast<float>(k.scale);
        const float minimum = d_minimum * static_cast<float>(k.minimum);
        for (size_t j = 0; j < 32; ++j) {
          out[j] = std::fma(static_cast<float>(Quant(blocks, i, j)), scale, -minimum);
        }
      }
    }
  }
};

}  // namespace kvrelay::model_file
