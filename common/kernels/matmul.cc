#include "common/kernels/matmul.h"

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/kernels/formats/format_table.h"
#include "common/kernels/openblas_matmul.h"
#include "common/kernels/packed_layout.h"

namespace kvrelay::kernels {
namespace {

using model_file::TensorType;

// Far above any model, and small enough that no product of sizes overflows.
constexpr int kMaxSide = 1 << 24;

bool IsQuantized(TensorType type) { return FormatOf(type).quant_matmul != nullptr; }

size_t RoundUpToVector(size_t bytes) {
  return (bytes + packed::kVectorBytes - 1) / packed::kVectorBytes * packed::kVectorBytes;
}

void MatmulNative(const Kernels& kernels, const Matrix& matrix, const Activations& x, int unit_begin, int unit_end,
                  float* out, int out_stride, bool add) {
  const size_t unit_bytes = UnitBytes(matrix.type, matrix.backend, matrix.inputs);
  const PackedFormat& format = FormatOf(matrix.type);
  if (format.quant_matmul != nullptr) {
    (kernels.*format.quant_matmul)(matrix.data, unit_bytes, unit_begin, unit_end, matrix.inputs, x.quantized, x.rows,
                                   out, out_stride, add);
  } else {
    (kernels.*format.float_matmul)(matrix.data, unit_bytes, unit_begin, unit_end, matrix.inputs, x.f32, x.inputs,
                                   x.rows, out, out_stride, add);
  }
}

}  // namespace

std::string_view MatmulBackendName(MatmulBackend backend) {
  return backend == MatmulBackend::kNative ? "native" : "openblas";
}

absl::StatusOr<MatmulBackend> ParseMatmulBackend(std::string_view name) {
  for (const MatmulBackend backend : {MatmulBackend::kNative, MatmulBackend::kOpenBlas}) {
    if (name == MatmulBackendName(backend)) return backend;
  }
  return absl::InvalidArgumentError(absl::StrFormat("unknown matmul backend \"%s\"; use native or openblas", name));
}

absl::StatusOr<std::string> InitMatmulBackend(MatmulBackend backend, Isa isa) {
  if (backend == MatmulBackend::kOpenBlas) return InitOpenBlas();
  return std::string(IsaName(isa));
}

absl::Status CheckMatrix(TensorType type, int outputs, int inputs) {
  if (outputs <= 0 || inputs <= 0 || outputs > kMaxSide || inputs > kMaxSide) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a matrix of %d outputs and %d inputs: each must be between 1 and %d", outputs, inputs, kMaxSide));
  }
  const int block = static_cast<int>(model_file::BlockShapeOf(type).elements);
  if (inputs % block != 0) {
    return absl::InvalidArgumentError(absl::StrFormat("a %s matrix with %d inputs: must be a multiple of %d",
                                                      model_file::TensorTypeName(type), inputs, block));
  }
  return absl::OkStatus();
}

size_t UnitBytes(TensorType type, MatmulBackend backend, int inputs) {
  const size_t count = static_cast<size_t>(inputs);
  if (backend == MatmulBackend::kOpenBlas) return count * kUnitRows * sizeof(float);
  return RoundUpToVector(FormatOf(type).unit_bytes(count));
}

size_t MatrixBytes(TensorType type, MatmulBackend backend, int outputs, int inputs) {
  const size_t units = (static_cast<size_t>(outputs) + kUnitRows - 1) / kUnitRows;
  return units * UnitBytes(type, backend, inputs);
}

bool WantsQuantized(const Matrix& matrix) {
  return matrix.backend == MatmulBackend::kNative && IsQuantized(matrix.type);
}

void Matmul(const Kernels& kernels, const Matrix& matrix, const Activations& x, int unit_begin, int unit_end,
            float* out, int out_stride, bool add) {
  KV_CHECK(x.inputs == matrix.inputs, "activations do not fit the matrix");
  KV_CHECK(unit_begin >= 0 && unit_begin <= unit_end && unit_end <= matrix.units(), "units outside the matrix");
  KV_CHECK(out_stride >= matrix.units() * kUnitRows, "output rows too short for whole units");
  if (x.rows == 0 || unit_begin == unit_end) return;
  if (matrix.backend == MatmulBackend::kOpenBlas) {
    const float* weights = reinterpret_cast<const float*>(matrix.data) +
                           static_cast<size_t>(unit_begin) * kUnitRows * static_cast<size_t>(matrix.inputs);
    SgemmPadded({.x = x.f32,
                 .rows = x.rows,
                 .inputs = x.inputs,
                 .weights = weights,
                 .outputs = (unit_end - unit_begin) * kUnitRows,
                 .out = out + unit_begin * kUnitRows,
                 .out_stride = out_stride,
                 .add = add});
    return;
  }
  MatmulNative(kernels, matrix, x, unit_begin, unit_end, out, out_stride, add);
}

}  // namespace kvrelay::kernels
