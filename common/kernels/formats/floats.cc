// F32, F16, BF16: per input the values of the 16 rows.
#include <cstring>

#include "absl/types/span.h"
#include "common/kernels/formats/format_table.h"

namespace kvrelay::kernels {
namespace {

using model_file::TensorType;

template <size_t kBytes>
size_t Bytes(size_t inputs) {
  return inputs * kUnitRows * kBytes;
}

template <size_t kBytes>
void Pack(const std::byte* source, size_t inputs, size_t row, std::byte* unit) {
  for (size_t k = 0; k < inputs; ++k) {
    std::memcpy(unit + (k * kUnitRows + row) * kBytes, source + k * kBytes, kBytes);
  }
}

template <TensorType kType, size_t kBytes>
void Unpack(const std::byte* unit, size_t inputs, size_t row, float* out) {
  for (size_t k = 0; k < inputs; ++k) {
    model_file::DequantizeRow(kType, absl::MakeConstSpan(unit + (k * kUnitRows + row) * kBytes, kBytes),
                              absl::MakeSpan(out + k, 1));
  }
}

}  // namespace

const PackedFormat kF32Format = {TensorType::kF32, nullptr, &Kernels::matmul_f32,
                                 Bytes<4>,         Pack<4>, Unpack<TensorType::kF32, 4>};
const PackedFormat kF16Format = {TensorType::kF16, nullptr, &Kernels::matmul_f16,
                                 Bytes<2>,         Pack<2>, Unpack<TensorType::kF16, 2>};
const PackedFormat kBf16Format = {TensorType::kBf16, nullptr, &Kernels::matmul_bf16,
                                  Bytes<2>,          Pack<2>, Unpack<TensorType::kBf16, 2>};

}  // namespace kvrelay::kernels
