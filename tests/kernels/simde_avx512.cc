#define KVRELAY_ISA avx512_emulated
#include "tests/kernels/simde_kernel_set.h"
// After it: the library must be the first to see the compiler's own headers.
#include "tests/kernels/simde_avx512.h"

namespace kvrelay::kernels {

constinit const Kernels kSimdeAvx512Kernels = avx512_emulated::MakeKernels(Isa::kAvx512);

}  // namespace kvrelay::kernels
