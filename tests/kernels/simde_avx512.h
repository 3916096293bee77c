// The AVX-512 kernels on emulated instructions. They need AVX2.
#pragma once

#include "common/kernels/kernel_types.h"

namespace kvrelay::kernels {

extern const Kernels kSimdeAvx512Kernels;
extern const Kernels kSimdeAvx512VnniKernels;

}  // namespace kvrelay::kernels
