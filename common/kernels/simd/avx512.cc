// Compiled with this instruction set's own flags (CMakeLists.txt). Nothing here may have external linkage but the set:
// an inline function of a shared header, compiled with these flags, could replace the baseline one at link time.
#define KVRELAY_ISA avx512
#define KVRELAY_VECTOR_HEADER "common/kernels/simd/vector_avx512.h"

#include "common/kernels/simd/kernel_set.h"
#include "common/kernels/simd/sets.h"

namespace kvrelay::kernels {

constinit const Kernels kAvx512Kernels = avx512::MakeKernels(Isa::kAvx512);

}  // namespace kvrelay::kernels
