// Packing of file rows into units, and back. The layout is described in packed_layout.h.
#include <cstring>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/kernels/matmul.h"
#include "common/kernels/packed_layout.h"

namespace kvrelay::kernels {
namespace {

using model_file::TensorType;

// Blocks of 32 as they are in a file.
constexpr size_t kQ4_1FileBytes = 20;  // d, m, 16 bytes of nibbles
constexpr size_t kQ8_0FileBytes = 34;  // d, 32 values
constexpr size_t kHalfBytes = 2;

std::byte* UnitData(const Matrix& matrix, int unit) {
  return matrix.data + static_cast<size_t>(unit) * UnitBytes(matrix.type, matrix.backend, matrix.inputs);
}

// Where the parts of block `block` of row `row` of a unit are.
std::byte* Q4_1Vector(std::byte* unit, size_t block, size_t row, size_t j) {
  return unit + block * packed::kQ4_1BlockBytes + j * 64 + row * 4;
}
std::byte* Q4_1Scale(std::byte* unit, size_t block, size_t row) {
  return unit + block * packed::kQ4_1BlockBytes + packed::kQ4_1QuantBytes + row * kHalfBytes;
}
std::byte* Q8_0Vector(std::byte* unit, size_t block, size_t row, size_t j) {
  return unit + block * packed::kQ8_0QuantBytes + j * 64 + row * 4;
}
std::byte* Q8_0Scale(std::byte* unit, size_t blocks, size_t block, size_t row) {
  return unit + blocks * packed::kQ8_0QuantBytes + block * packed::kScaleBytes + row * kHalfBytes;
}

void PackQ4_1(const std::byte* source, size_t blocks, size_t row, std::byte* unit) {
  for (size_t b = 0; b < blocks; ++b, source += kQ4_1FileBytes) {
    std::byte* scale = Q4_1Scale(unit, b, row);
    std::memcpy(scale, source, kHalfBytes);
    std::memcpy(scale + packed::kScaleBytes, source + kHalfBytes, kHalfBytes);
    for (size_t j = 0; j < 4; ++j) std::memcpy(Q4_1Vector(unit, b, row, j), source + 2 * kHalfBytes + 4 * j, 4);
  }
}

void PackQ8_0(const std::byte* source, size_t blocks, size_t row, std::byte* unit) {
  for (size_t b = 0; b < blocks; ++b, source += kQ8_0FileBytes) {
    std::memcpy(Q8_0Scale(unit, blocks, b, row), source, kHalfBytes);
    for (size_t j = 0; j < 8; ++j) std::memcpy(Q8_0Vector(unit, b, row, j), source + kHalfBytes + 4 * j, 4);
  }
}

void PackElements(const std::byte* source, size_t inputs, size_t element_bytes, size_t row, std::byte* unit) {
  for (size_t k = 0; k < inputs; ++k) {
    std::memcpy(unit + (k * kUnitRows + row) * element_bytes, source + k * element_bytes, element_bytes);
  }
}

size_t ElementBytes(TensorType type) { return type == TensorType::kF32 ? 4 : 2; }

void UnpackQuantized(const Matrix& matrix, std::byte* unit, size_t row, float* out) {
  const size_t blocks = static_cast<size_t>(matrix.inputs) / kQuantBlock;
  const bool q4 = matrix.type == TensorType::kQ4_1;
  std::byte file[kQ8_0FileBytes];
  for (size_t b = 0; b < blocks; ++b) {
    if (q4) {
      const std::byte* scale = Q4_1Scale(unit, b, row);
      std::memcpy(file, scale, kHalfBytes);
      std::memcpy(file + kHalfBytes, scale + packed::kScaleBytes, kHalfBytes);
      for (size_t j = 0; j < 4; ++j) std::memcpy(file + 2 * kHalfBytes + 4 * j, Q4_1Vector(unit, b, row, j), 4);
    } else {
      std::memcpy(file, Q8_0Scale(unit, blocks, b, row), kHalfBytes);
      for (size_t j = 0; j < 8; ++j) std::memcpy(file + kHalfBytes + 4 * j, Q8_0Vector(unit, b, row, j), 4);
    }
    model_file::DequantizeRow(matrix.type, absl::MakeConstSpan(file, q4 ? kQ4_1FileBytes : kQ8_0FileBytes),
                              absl::MakeSpan(out + b * kQuantBlock, kQuantBlock));
  }
}

void UnpackElements(const Matrix& matrix, const std::byte* unit, size_t row, float* out) {
  const size_t bytes = ElementBytes(matrix.type);
  for (size_t k = 0; k < static_cast<size_t>(matrix.inputs); ++k) {
    model_file::DequantizeRow(matrix.type, absl::MakeConstSpan(unit + (k * kUnitRows + row) * bytes, bytes),
                              absl::MakeSpan(out + k, 1));
  }
}

}  // namespace

void PackUnit(const Matrix& matrix, int unit, const std::byte* const rows[kUnitRows]) {
  KV_CHECK(unit >= 0 && unit < matrix.units(), "unit outside the matrix");
  std::byte* data = UnitData(matrix, unit);
  const size_t inputs = static_cast<size_t>(matrix.inputs);
  std::memset(data, 0, UnitBytes(matrix.type, matrix.backend, matrix.inputs));
  for (size_t r = 0; r < kUnitRows; ++r) {
    if (rows[r] == nullptr) continue;
    if (matrix.backend == MatmulBackend::kOpenBlas) {
      model_file::DequantizeRow(matrix.type, absl::MakeConstSpan(rows[r], model_file::RowBytes(matrix.type, inputs)),
                                absl::MakeSpan(reinterpret_cast<float*>(data) + r * inputs, inputs));
    } else if (matrix.type == TensorType::kQ4_1) {
      PackQ4_1(rows[r], inputs / kQuantBlock, r, data);
    } else if (matrix.type == TensorType::kQ8_0) {
      PackQ8_0(rows[r], inputs / kQuantBlock, r, data);
    } else {
      PackElements(rows[r], inputs, ElementBytes(matrix.type), r, data);
    }
  }
}

void UnpackRow(const Matrix& matrix, int row, float* out) {
  KV_CHECK(row >= 0 && row < matrix.outputs, "row outside the matrix");
  std::byte* unit = UnitData(matrix, row / kUnitRows);
  const size_t in_unit = static_cast<size_t>(row % kUnitRows);
  const size_t inputs = static_cast<size_t>(matrix.inputs);
  if (matrix.backend == MatmulBackend::kOpenBlas) {
    std::memcpy(out, unit + in_unit * inputs * sizeof(float), inputs * sizeof(float));
  } else if (matrix.type == TensorType::kQ4_1 || matrix.type == TensorType::kQ8_0) {
    UnpackQuantized(matrix, unit, in_unit, out);
  } else {
    UnpackElements(matrix, unit, in_unit, out);
  }
}

}  // namespace kvrelay::kernels
