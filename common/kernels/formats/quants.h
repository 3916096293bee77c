// The quants of one row and block of a unit, of up to 6 bits each: put and read back (packed_layout.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/kernels/kernel_types.h"
#include "common/kernels/packed_layout.h"

namespace kvrelay::kernels {

using Quants = std::array<uint8_t, kQuantBlock>;

inline constexpr size_t kHalfBytes = 2;  // of an f16

// Where the upper bits of value `i` are: in which byte of the row, and how far up in it.
template <int kBits>
struct UpperBits {
  static constexpr size_t kCount = kBits - 4;
  static constexpr uint8_t kMask = (1 << kCount) - 1;
  static size_t Byte(size_t i) { return packed::kNibbleBytes + i / 4 * kCount / 8 * packed::kVectorBytes + i % 4; }
  static size_t Shift(size_t i) { return i / 4 * kCount % 8; }
};

// In what follows `block` is the block's first byte, and its memory was zero.

// The low four bits: byte i has those of value i in its low nibble, those of value i + 16 in its high one.
inline void PutNibbles(const std::byte* nibbles, size_t row, std::byte* block) {
  for (size_t j = 0; j < 4; ++j) std::memcpy(block + j * packed::kVectorBytes + row * 4, nibbles + 4 * j, 4);
}

// upper(i): what value i has above its low four bits.
template <int kBits, class Upper>
void PutUpperBits(const Upper& upper, size_t row, std::byte* block) {
  for (size_t i = 0; i < kQuantBlock; ++i) {
    block[row * 4 + UpperBits<kBits>::Byte(i)] |= static_cast<std::byte>(upper(i) << UpperBits<kBits>::Shift(i));
  }
}

template <int kBits>
void PutQuants(const Quants& quants, size_t row, std::byte* block) {
  std::byte nibbles[16];
  for (size_t i = 0; i < 16; ++i) nibbles[i] = static_cast<std::byte>((quants[i] & 15) | (quants[i + 16] & 15) << 4);
  PutNibbles(nibbles, row, block);
  if constexpr (kBits > 4) PutUpperBits<kBits>([&](size_t i) { return quants[i] >> 4; }, row, block);
}

template <int kBits>
Quants GetQuants(const std::byte* block, size_t row) {
  const std::byte* at = block + row * 4;
  Quants quants;
  for (size_t i = 0; i < 16; ++i) {
    const auto pair = static_cast<uint8_t>(at[i / 4 * packed::kVectorBytes + i % 4]);
    quants[i] = pair & 15;
    quants[i + 16] = pair >> 4;
  }
  if constexpr (kBits > 4) {
    for (size_t i = 0; i < kQuantBlock; ++i) {
      const auto upper = static_cast<uint8_t>(at[UpperBits<kBits>::Byte(i)]) >> UpperBits<kBits>::Shift(i);
      quants[i] |= static_cast<uint8_t>((upper & UpperBits<kBits>::kMask) << 4);
    }
  }
  return quants;
}

}  // namespace kvrelay::kernels
