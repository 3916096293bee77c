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

// `block` is the block's first byte. The memory was zero.
template <int kBits>
void PutQuants(const Quants& quants, size_t row, std::byte* block) {
  std::byte* at = block + row * 4;
  for (size_t i = 0; i < 16; ++i) {
    at[i / 4 * packed::kVectorBytes + i % 4] = static_cast<std::byte>((quants[i] & 15) | (quants[i + 16] & 15) << 4);
  }
  if constexpr (kBits > 4) {
    for (size_t i = 0; i < kQuantBlock; ++i) {
      at[UpperBits<kBits>::Byte(i)] |= static_cast<std::byte>(quants[i] >> 4 << UpperBits<kBits>::Shift(i));
    }
  }
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
