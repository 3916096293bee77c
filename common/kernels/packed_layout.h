// How a packed unit of 16 output rows lies in memory, block of 32 inputs by block. Vectors start at multiples of 64
// bytes if the unit does.
//
//   Q4_1: per block 4 vectors of 64 B, then 16 f16 d and 16 f16 m. Vector j holds the source bytes 4j..4j+3 of each
//   row; byte i
//         of a row has value i in its low nibble and value i + 16 in its high one.
//   Q8_0: all blocks' 8 vectors of 64 B, then all blocks' 16 f16 d. Vector j holds the values 4j..4j+3 of each row.
//   F32, F16, BF16: per input the 16 rows' values.
#pragma once

#include <cstddef>

namespace kvrelay::kernels::packed {

inline constexpr size_t kScaleBytes = 32;
inline constexpr size_t kQ4_1QuantBytes = 256;
inline constexpr size_t kQ4_1BlockBytes = kQ4_1QuantBytes + 2 * kScaleBytes;
inline constexpr size_t kQ8_0QuantBytes = 512;
inline constexpr size_t kQ8_0BlockBytes = kQ8_0QuantBytes + kScaleBytes;

}  // namespace kvrelay::kernels::packed
