// Q4_K, Q5_K (model_file/types/k_block.h). dmin is stored with its sign turned, as the kernels add minimums.
#include <cmath>
#include <cstring>

#include "common/kernels/formats/format_table.h"
#include "common/kernels/formats/quants.h"
#include "common/model_file/types/k_block.h"

namespace kvrelay::kernels {
namespace {

using model_file::HalfToFloat;
using model_file::KScale;
using model_file::LoadField;
using packed::kSuperBlocks;

constexpr size_t kSuperInputs = kSuperBlocks * kQuantBlock;

template <int kBits>
struct Layout {
  using File = model_file::KBlock<kBits>;

  // Within the bytes of 256 inputs: a block's quants, its scale (its minimum is 16 bytes on), and d (-dmin 32 on).
  static size_t QuantsAt(size_t block) { return block * packed::QuantBytes(kBits); }
  static size_t ScaleAt(size_t block, size_t row) { return QuantsAt(kSuperBlocks) + block * packed::kScaleBytes + row; }
  static size_t DAt(size_t row) { return ScaleAt(kSuperBlocks, 0) + row * kHalfBytes; }

  static size_t Bytes(size_t inputs) { return inputs / kSuperInputs * packed::SuperBytes(kBits); }

  static Quants FileQuants(const std::byte* source, size_t block) {
    Quants quants;
    for (size_t i = 0; i < kQuantBlock; ++i) quants[i] = File::Quant(source, block, i);
    return quants;
  }

  static void Pack(const std::byte* source, size_t inputs, size_t row, std::byte* unit) {
    for (size_t s = 0; s < inputs / kSuperInputs; ++s, source += File::kBytes, unit += packed::SuperBytes(kBits)) {
      for (size_t b = 0; b < kSuperBlocks; ++b) {
        PutQuants<kBits>(FileQuants(source, b), row, unit + QuantsAt(b));
        const KScale scale = model_file::LoadKScale(source, b);
        unit[ScaleAt(b, row)] = static_cast<std::byte>(scale.scale);
        unit[ScaleAt(b, row) + kUnitRows] = static_cast<std::byte>(scale.minimum);
      }
      const uint16_t minus_minimum = LoadField<uint16_t>(source + kHalfBytes) ^ 0x8000;
      std::memcpy(unit + DAt(row), source, kHalfBytes);
      std::memcpy(unit + DAt(row) + packed::kScaleBytes, &minus_minimum, kHalfBytes);
    }
  }

  static void Unpack(const std::byte* unit, size_t inputs, size_t row, float* out) {
    for (size_t s = 0; s < inputs / kSuperInputs; ++s, unit += packed::SuperBytes(kBits)) {
      const float d = HalfToFloat(LoadField<uint16_t>(unit + DAt(row)));
      const float d_minimum = HalfToFloat(LoadField<uint16_t>(unit + DAt(row) + packed::kScaleBytes));
      for (size_t b = 0; b < kSuperBlocks; ++b) {
        const float scale = d * LoadField<uint8_t>(unit + ScaleAt(b, row));
        const float minimum = d_minimum * LoadField<uint8_t>(unit + ScaleAt(b, row) + kUnitRows);
        for (const uint8_t q : GetQuants<kBits>(unit + QuantsAt(b), row)) *out++ = std::fma(q, scale, minimum);
      }
    }
  }

  static constexpr PackedFormat Format(model_file::TensorType type, Kernels::QuantMatmul Kernels::*kernel) {
    return {type, kernel, nullptr, Bytes, Pack, Unpack};
  }
};

}  // namespace

using model_file::TensorType;
const PackedFormat kQ4_KFormat = Layout<4>::Format(TensorType::kQ4_K, &Kernels::matmul_q4_k);
const PackedFormat kQ5_KFormat = Layout<5>::Format(TensorType::kQ5_K, &Kernels::matmul_q5_k);

}  // namespace kvrelay::kernels
