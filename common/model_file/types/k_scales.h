// The scales and minimums of Q4_K and Q5_K: eight pairs of 6-bit numbers in 12 bytes. Pairs 0..3 are the low six bits
// of bytes 0..3 and 4..7; pairs 4..7 have their low four bits in bytes 8..11 (scale low, minimum high) and their upper
// two in the top of bytes 0..3 and 4..7.
#pragma once

#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {

struct KScale {
  uint8_t scale;
  uint8_t minimum;
};

// Of sub-block `i` (0..7); `bytes` are the 12 bytes.
inline KScale LoadKScale(const std::byte* bytes, size_t i) {
  const auto at = [&](size_t j) { return LoadField<uint8_t>(bytes + j); };
  if (i < 4) return {static_cast<uint8_t>(at(i) & 63), static_cast<uint8_t>(at(i + 4) & 63)};
  return {static_cast<uint8_t>((at(i + 4) & 15) | (at(i - 4) >> 6) << 4),
          static_cast<uint8_t>(at(i + 4) >> 4 | (at(i) >> 6) << 4)};
}

}  // namespace kvrelay::model_file
