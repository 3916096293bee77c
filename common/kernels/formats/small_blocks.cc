// Q4_0, Q4_1, Q5_0, Q5_1: file block = f16 d, f16 m (the types that end in 1), u32 of fifth bits (Q5), 16 bytes of low
// nibbles. Those that end in 0 count from the middle: value = (q - 8) * d or (q - 16) * d.
#include <cmath>
#include <cstring>

#include "common/kernels/formats/format_table.h"
#include "common/kernels/formats/quants.h"
#include "common/model_file/types/type_table.h"

namespace kvrelay::kernels {
namespace {

using model_file::HalfToFloat;
using model_file::LoadField;

template <int kBits, bool kMinimum>
struct Layout {
  static constexpr size_t kScales = (kMinimum ? 2 : 1) * kHalfBytes;
  static constexpr size_t kNibbles = kScales + (kBits == 5 ? 4 : 0);
  static constexpr size_t kFileBytes = kNibbles + 16;

  static size_t QuantsAt(size_t block) {
    return block * (kMinimum ? packed::WithMinimumBytes(kBits) : packed::QuantBytes(kBits));
  }
  static size_t ScaleAt(size_t blocks, size_t block, size_t row) {
    const size_t first =
        kMinimum ? QuantsAt(block) + packed::QuantBytes(kBits) : QuantsAt(blocks) + block * packed::kScaleBytes;
    return first + row * kHalfBytes;
  }

  static size_t Bytes(size_t inputs) {
    const size_t blocks = inputs / kQuantBlock;
    return QuantsAt(blocks) + (kMinimum ? 0 : blocks * packed::kScaleBytes);
  }

  static void Pack(const std::byte* source, size_t inputs, size_t row, std::byte* unit) {
    const size_t blocks = inputs / kQuantBlock;
    for (size_t b = 0; b < blocks; ++b, source += kFileBytes) {
      std::byte* scale = unit + ScaleAt(blocks, b, row);
      std::memcpy(scale, source, kHalfBytes);
      if (kMinimum) std::memcpy(scale + packed::kScaleBytes, source + kHalfBytes, kHalfBytes);
      PutNibbles(source + kNibbles, row, unit + QuantsAt(b));  // the file has them in the same order
      if constexpr (kBits == 5) {
        const auto fifth = LoadField<uint32_t>(source + kScales);
        PutUpperBits<kBits>([&](size_t i) { return fifth >> i & 1; }, row, unit + QuantsAt(b));
      }
    }
  }

  static void Unpack(const std::byte* unit, size_t inputs, size_t row, float* out) {
    const size_t blocks = inputs / kQuantBlock;
    for (size_t b = 0; b < blocks; ++b) {
      const std::byte* scale = unit + ScaleAt(blocks, b, row);
      const float d = HalfToFloat(LoadField<uint16_t>(scale));
      const float m = kMinimum ? HalfToFloat(LoadField<uint16_t>(scale + packed::kScaleBytes)) : 0;
      for (const uint8_t q : GetQuants<kBits>(unit + QuantsAt(b), row)) {
        *out++ = kMinimum ? std::fma(static_cast<float>(q), d, m) : static_cast<float>(q - (1 << (kBits - 1))) * d;
      }
    }
  }

  static constexpr PackedFormat Format(model_file::TensorType type, Kernels::QuantMatmul Kernels::*kernel) {
    return {type, kernel, nullptr, Bytes, Pack, Unpack};
  }
};

}  // namespace

using model_file::TensorType;
const PackedFormat kQ4_0Format = Layout<4, false>::Format(TensorType::kQ4_0, &Kernels::matmul_q4_0);
const PackedFormat kQ4_1Format = Layout<4, true>::Format(TensorType::kQ4_1, &Kernels::matmul_q4_1);
const PackedFormat kQ5_0Format = Layout<5, false>::Format(TensorType::kQ5_0, &Kernels::matmul_q5_0);
const PackedFormat kQ5_1Format = Layout<5, true>::Format(TensorType::kQ5_1, &Kernels::matmul_q5_1);

}  // namespace kvrelay::kernels
