// Built for the baseline of the target: no instruction set flags.
#define KVRELAY_ISA scalar
#define KVRELAY_VECTOR_HEADER "common/kernels/simd/vector_scalar.h"

#include "common/kernels/simd/kernel_set.h"
#include "common/kernels/simd/sets.h"

namespace kvrelay::kernels {

constinit const Kernels kScalarKernels = scalar::MakeKernels(Isa::kScalar);

}  // namespace kvrelay::kernels
