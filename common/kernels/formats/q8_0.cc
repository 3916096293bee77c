// Q8_0: file block = f16 d, 32 signed bytes.
#include <cstring>

#include "common/kernels/formats/format_table.h"
#include "common/kernels/formats/quants.h"
#include "common/model_file/types/type_table.h"

namespace kvrelay::kernels {
namespace {

using model_file::HalfToFloat;
using model_file::LoadField;

constexpr size_t kFileBytes = kHalfBytes + kQuantBlock;

size_t Bytes(size_t inputs) { return inputs / kQuantBlock * (packed::kQ8_0QuantBytes + packed::kScaleBytes); }

// Where the values 4j..4j+3 and the scale of a block of a row are.
size_t VectorAt(size_t block, size_t row, size_t j) {
  return block * packed::kQ8_0QuantBytes + j * packed::kVectorBytes + row * 4;
}
size_t ScaleAt(size_t blocks, size_t block, size_t row) {
  return blocks * packed::kQ8_0QuantBytes + block * packed::kScaleBytes + row * kHalfBytes;
}

void Pack(const std::byte* source, size_t inputs, size_t row, std::byte* unit) {
  const size_t blocks = inputs / kQuantBlock;
  for (size_t b = 0; b < blocks; ++b, source += kFileBytes) {
    std::memcpy(unit + ScaleAt(blocks, b, row), source, kHalfBytes);
    for (size_t j = 0; j < 8; ++j) std::memcpy(unit + VectorAt(b, row, j), source + kHalfBytes + 4 * j, 4);
  }
}

void Unpack(const std::byte* unit, size_t inputs, size_t row, float* out) {
  const size_t blocks = inputs / kQuantBlock;
  for (size_t b = 0; b < blocks; ++b) {
    const float d = HalfToFloat(LoadField<uint16_t>(unit + ScaleAt(blocks, b, row)));
    for (size_t i = 0; i < kQuantBlock; ++i) {
      *out++ = static_cast<float>(LoadField<int8_t>(unit + VectorAt(b, row, i / 4) + i % 4)) * d;
    }
  }
}

}  // namespace

const PackedFormat kQ8_0Format = {model_file::TensorType::kQ8_0, &Kernels::matmul_q8_0, nullptr, Bytes, Pack, Unpack};

}  // namespace kvrelay::kernels
