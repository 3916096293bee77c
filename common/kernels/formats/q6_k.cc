// Q6_K: file block of 256 = 128 bytes of low nibbles, 64 bytes of upper bits, 16 signed scales of 16 values each, f16 d
// (model_file/types/q6_k.cc).
#include <cstring>

#include "common/kernels/formats/format_table.h"
#include "common/kernels/formats/quants.h"
#include "common/model_file/types/type_table.h"

namespace kvrelay::kernels {
namespace {

using model_file::HalfToFloat;
using model_file::LoadField;
using packed::kSuperBlocks;

constexpr int kBits = 6;
constexpr size_t kSuperInputs = kSuperBlocks * kQuantBlock;
constexpr size_t kFileUpper = 128;
constexpr size_t kFileScales = 192;
constexpr size_t kFileD = 208;
constexpr size_t kFileBytes = 210;

// Within the bytes of 256 inputs: a block's quants, its two scales, and d.
size_t QuantsAt(size_t block) { return block * packed::QuantBytes(kBits); }
size_t ScalesAt(size_t block, size_t row) { return QuantsAt(kSuperBlocks) + block * packed::kScaleBytes + 2 * row; }
size_t DAt(size_t row) { return ScalesAt(kSuperBlocks, 0) + row * kHalfBytes; }

size_t Bytes(size_t inputs) { return inputs / kSuperInputs * packed::SuperBytes(kBits); }

Quants FileQuants(const std::byte* source, size_t block) {
  const size_t half = block / 4, quarter = block % 4;
  Quants quants;
  for (size_t i = 0; i < kQuantBlock; ++i) {
    const auto low = LoadField<uint8_t>(source + half * 64 + quarter % 2 * kQuantBlock + i);
    const auto upper = LoadField<uint8_t>(source + kFileUpper + half * kQuantBlock + i);
    quants[i] = static_cast<uint8_t>((quarter < 2 ? low & 15 : low >> 4) | (upper >> 2 * quarter & 3) << 4);
  }
  return quants;
}

void Pack(const std::byte* source, size_t inputs, size_t row, std::byte* unit) {
  for (size_t s = 0; s < inputs / kSuperInputs; ++s, source += kFileBytes, unit += packed::SuperBytes(kBits)) {
    for (size_t b = 0; b < kSuperBlocks; ++b) {
      PutQuants<kBits>(FileQuants(source, b), row, unit + QuantsAt(b));
      std::memcpy(unit + ScalesAt(b, row), source + kFileScales + 2 * b, 2);
    }
    std::memcpy(unit + DAt(row), source + kFileD, kHalfBytes);
  }
}

void Unpack(const std::byte* unit, size_t inputs, size_t row, float* out) {
  for (size_t s = 0; s < inputs / kSuperInputs; ++s, unit += packed::SuperBytes(kBits)) {
    const float d = HalfToFloat(LoadField<uint16_t>(unit + DAt(row)));
    for (size_t b = 0; b < kSuperBlocks; ++b) {
      const Quants quants = GetQuants<kBits>(unit + QuantsAt(b), row);
      for (size_t i = 0; i < kQuantBlock; ++i) {
        const float scale = d * LoadField<int8_t>(unit + ScalesAt(b, row) + i / 16);
        *out++ = scale * static_cast<float>(quants[i] - 32);
      }
    }
  }
}

}  // namespace

const PackedFormat kQ6_KFormat = {model_file::TensorType::kQ6_K, &Kernels::matmul_q6_k, nullptr, Bytes, Pack, Unpack};

}  // namespace kvrelay::kernels
