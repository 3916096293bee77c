// The one door to OpenBLAS: no other file includes its header.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace kvrelay::kernels {

// One BLAS thread per caller; checks the core that OpenBLAS chose and a small product. Where OpenBLAS does not know the
// CPU, its core is chosen by what the CPU can do, for which the environment is touched: call it before there are threads
// that look at it. Returns "openblas <core>". FAILED_PRECONDITION if the core has no AVX2 or AVX-512 kernels, or the
// product is wrong.
absl::StatusOr<std::string> InitOpenBlas();

// out[r][n] = or += sum over k of x[r][k] * weights[n][k].
struct SgemmCall {
  const float* x;  // [rows][inputs]
  int rows;
  int inputs;
  const float* weights;  // [outputs][inputs]
  int outputs;
  float* out;
  int out_stride;
  bool add;
};
// Fewer than 16 rows are padded with zeros to 16: below that, OpenBLAS has other code paths that round differently.
// Any thread may call it, for disjoint outputs.
void SgemmPadded(const SgemmCall& call);

}  // namespace kvrelay::kernels
