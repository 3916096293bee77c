// Weight matrices ready to be multiplied, and the one door to multiply with them, whatever the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/model_file/tensor_type.h"

namespace kvrelay::kernels {

// kNative: own kernels on the file's own bits. kOpenBlas: f32 weights and sgemm, rows padded to 16, one BLAS thread per
// calling thread; equal within a tolerance only, not bit for bit, when the number of rows differs.
enum class MatmulBackend { kNative, kOpenBlas };
std::string_view MatmulBackendName(MatmulBackend backend);  // "native", "openblas"
absl::StatusOr<MatmulBackend> ParseMatmulBackend(std::string_view name);

// Prepares a backend for this process. OpenBLAS: one thread, core name checked and compared with the scalar twin on a
// small product; FAILED_PRECONDITION if the core is no AVX2 or AVX-512 one or the product differs. Returns what was
// chosen, for the log: "avx2" or "openblas Zen".
absl::StatusOr<std::string> InitMatmulBackend(MatmulBackend backend, Isa isa);

// A matrix W [outputs][inputs] for y = W x. Does not own its data.
struct Matrix {
  model_file::TensorType type;
  MatmulBackend backend;
  int outputs;
  int inputs;
  std::byte* data;  // MatrixBytes(...) bytes, 64-byte aligned

  // Units of 16 outputs (the last one zero-padded): what threads divide among themselves.
  int units() const { return (outputs + kUnitRows - 1) / kUnitRows; }
};

// INVALID_ARGUMENT if `inputs` is not a multiple of the type's block or a size is not positive.
absl::Status CheckMatrix(model_file::TensorType type, int outputs, int inputs);
// Bytes of the packed form of one unit, and of a matrix; multiples of 64.
size_t UnitBytes(model_file::TensorType type, MatmulBackend backend, int inputs);
size_t MatrixBytes(model_file::TensorType type, MatmulBackend backend, int outputs, int inputs);
// Packs 16 file rows (RowBytes each; null for a padding row) into unit `unit`.
void PackUnit(const Matrix& matrix, int unit, const std::byte* const rows[kUnitRows]);
// The f32 values of one row of a packed matrix: embedding look-up.
void UnpackRow(const Matrix& matrix, int row, float* out);

// The left operand in the forms that matrices may want. `quantized` need be filled only if some matrix says so.
struct Activations {
  int rows;
  int inputs;
  const float* f32;  // [rows][inputs]
  QuantizedRows quantized;
};
bool WantsQuantized(const Matrix& matrix);

// out[r][16u..] = or += W x for units [unit_begin, unit_end). Thread-safe for disjoint units. `out_stride` >= units
// * 16.
void Matmul(const Kernels& kernels, const Matrix& matrix, const Activations& x, int unit_begin, int unit_end,
            float* out, int out_stride, bool add);

}  // namespace kvrelay::kernels
