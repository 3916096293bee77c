// The sets that are compiled into this program.
#pragma once

#include "common/kernels/kernel_types.h"

namespace kvrelay::kernels {

extern const Kernels kScalarKernels;
#ifdef KVRELAY_X86_KERNELS
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;
#endif

}  // namespace kvrelay::kernels
