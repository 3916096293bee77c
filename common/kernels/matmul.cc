#include "common/kernels/matmul.h"

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/kernels/openblas_matmul.h"
#include "common/kernels/packed_layout.h"

namespace kvrelay::kernels {
namespace {

using model_file::TensorType;

// Far above any model, and small enough that no product of sizes overflows.
constexpr int kMaxSide = 1 << 24;

bool IsQuantized(TensorType type) { return type == TensorType::kQ4_1 || type == TensorType::kQ8_0; }

size_t RoundUpToVector(size_t bytes) { return (bytes + 63) / 64 * 64; }

void MatmulNative(const Kernels& kernels, const Matrix& matrix, const Activations& x, int unit_begin, int unit_end,
                  float* out, int out_stride, bool add) {
  const size_t unit_bytes = UnitBytes(matrix.type, matrix.backend, matrix.inputs);
  const auto quantized = [&](Kernels::QuantMatmul run) {
    run(matrix.data, unit_bytes, unit_begin, unit_end, matrix.inputs, x.quantized, x.rows, out, out_stride, add);
  };
  const auto floating = [&](Kernels::FloatMatmul run) {
    run(matrix.data, unit_bytes, unit_begin, unit_end, matrix.inputs, x.f32, x.inputs, x.rows, out, out_stride, add);
  };
  switch (matrix.type) {
    case TensorType::kF32:
      return floating(kernels.matmul_f32);
    case TensorType::kF16:
      return floating(kernels.matmul_f16);
    case TensorType::kBf16:
      return floating(kernels.matmul_bf16);
    case TensorType::kQ4_1:
      return quantized(kernels.matmul_q4_1);
    case TensorType::kQ8_0:
      return quantized(kernels.matmul_q8_0);
  }
  KV_CHECK(false, "matrix of an unknown type");
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
  const int block = IsQuantized(type) ? kQuantBlock : 1;
  if (inputs % block != 0) {
    return absl::InvalidArgumentError(absl::StrFormat("a %s matrix with %d inputs: must be a multiple of %d",
                                                      model_file::TensorTypeName(type), inputs, block));
  }
  return absl::OkStatus();
}

size_t UnitBytes(TensorType type, MatmulBackend backend, int inputs) {
  const size_t count = static_cast<size_t>(inputs);
  const size_t blocks = count / kQuantBlock;
  if (backend == MatmulBackend::kOpenBlas) return count * kUnitRows * sizeof(float);
  switch (type) {
    case TensorType::kF32:
      return count * kUnitRows * 4;
    case TensorType::kF16:
    case TensorType::kBf16:
      return RoundUpToVector(count * kUnitRows * 2);
    case TensorType::kQ4_1:
      return blocks * packed::kQ4_1BlockBytes;
    case TensorType::kQ8_0:
      return RoundUpToVector(blocks * packed::kQ8_0BlockBytes);
  }
  KV_CHECK(false, "matrix of an unknown type");
  return 0;
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
