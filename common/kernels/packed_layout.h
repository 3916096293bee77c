// How a packed unit of 16 output rows lies in memory. Vectors start at multiples of 64 bytes if the unit does.
//
// Quants of up to 6 bits, for a block of 32 inputs (QuantBytes(bits) bytes):
//   4 vectors of 64 B: vector j holds bytes 4j..4j+3 of each row; byte i of a row has the low four bits of value i in
//   its low nibble and those of value i + 16 in its high one. Then 1 vector (5 bits) or 2 (6 bits) with the upper bits:
//   byte t of a row has those of values t, t + 4, t + 8, ..., the lowest bits first: all eight values of 5 bits; of 6
//   bits, the first vector has the first four, the second the others.
//
//   So a weight costs about the bits that it has in the file. Measured against whole bytes for Q5_0 and Q5_1 (AVX2 on
//   Zen 3): one row, where memory is the limit, is 1.5 times as fast; many rows are equal, for they share the three
//   operations that put upper bits in their place.
//
//   Q4_0, Q5_0: all blocks' quants, then all blocks' 16 f16 d.
//   Q4_1, Q5_1: per block quants, 16 f16 d, 16 f16 m.
//   Q8_0: all blocks' 8 vectors of 64 B, then all blocks' 16 f16 d. Vector j holds the values 4j..4j+3 of each row.
//   Q4_K, Q5_K: per 256 inputs 8 blocks' quants, 8 times 16 u8 scales and 16 u8 minimums, 16 f16 d, 16 f16 -dmin.
//   Q6_K: per 256 inputs 8 blocks' quants, 8 times 16 pairs of i8 scales, 16 f16 d, 32 bytes unused.
//   F32, F16, BF16: per input the 16 rows' values.
#pragma once

#include <cstddef>

namespace kvrelay::kernels::packed {

inline constexpr size_t kVectorBytes = 64;
inline constexpr size_t kScaleBytes = 32;    // 16 f16, or 2 x 16 bytes
inline constexpr size_t kNibbleBytes = 256;  // of a block's quants
inline constexpr size_t kQ8_0QuantBytes = 512;
inline constexpr size_t kSuperBlocks = 8;  // blocks of 32 that share a d in K-quants

// Static, not inline: each kernel file must have its own copies, compiled with its own flags.
static constexpr size_t QuantBytes(int bits) { return static_cast<size_t>(bits) * kVectorBytes; }
static constexpr size_t WithMinimumBytes(int bits) { return QuantBytes(bits) + 2 * kScaleBytes; }
// 256 inputs of a K-quant: quants, scales of the blocks, and two vectors' halves of f16.
static constexpr size_t SuperBytes(int bits) {
  return kSuperBlocks * (QuantBytes(bits) + kScaleBytes) + 2 * kScaleBytes;
}

}  // namespace kvrelay::kernels::packed
