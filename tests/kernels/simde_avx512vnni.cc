#define KVRELAY_ISA avx512vnni_emulated
#define KVRELAY_AVX512_VNNI
#include "tests/kernels/simde_kernel_set.h"
// After it: the library must be the first to see the compiler's own headers.
#include "tests/kernels/simde_avx512.h"

namespace kvrelay::kernels {

constinit const Kernels kSimdeAvx512VnniKernels = avx512vnni_emulated::MakeKernels(Isa::kAvx512Vnni);

}  // namespace kvrelay::kernels
