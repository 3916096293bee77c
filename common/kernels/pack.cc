// Packing of file rows into units, and back. The layout is described in packed_layout.h.
#include <cstring>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/kernels/formats/format_table.h"
#include "common/kernels/matmul.h"

namespace kvrelay::kernels {
namespace {

std::byte* UnitData(const Matrix& matrix, int unit) {
  return matrix.data + static_cast<size_t>(unit) * UnitBytes(matrix.type, matrix.backend, matrix.inputs);
}

}  // namespace

void PackUnit(const Matrix& matrix, int unit, const std::byte* const rows[kUnitRows]) {
  KV_CHECK(unit >= 0 && unit < matrix.units(), "unit outside the matrix");
  std::byte* data = UnitData(matrix, unit);
  const size_t inputs = static_cast<size_t>(matrix.inputs);
  std::memset(data, 0, UnitBytes(matrix.type, matrix.backend, matrix.inputs));
  const PackedFormat& format = FormatOf(matrix.type);
  for (size_t r = 0; r < kUnitRows; ++r) {
    if (rows[r] == nullptr) continue;
    if (matrix.backend == MatmulBackend::kOpenBlas) {
      model_file::DequantizeRow(matrix.type, absl::MakeConstSpan(rows[r], model_file::RowBytes(matrix.type, inputs)),
                                absl::MakeSpan(reinterpret_cast<float*>(data) + r * inputs, inputs));
    } else {
      format.pack_row(rows[r], inputs, r, data);
    }
  }
}

void UnpackRow(const Matrix& matrix, int row, float* out) {
  KV_CHECK(row >= 0 && row < matrix.outputs, "row outside the matrix");
  const std::byte* unit = UnitData(matrix, row / kUnitRows);
  const size_t in_unit = static_cast<size_t>(row % kUnitRows);
  const size_t inputs = static_cast<size_t>(matrix.inputs);
  if (matrix.backend == MatmulBackend::kOpenBlas) {
    std::memcpy(out, unit + in_unit * inputs * sizeof(float), inputs * sizeof(float));
  } else {
    FormatOf(matrix.type).unpack_row(unit, inputs, in_unit, out);
  }
}

}  // namespace kvrelay::kernels
