// The kernels of this process: which instruction sets there are, and the set of functions for each (kernel_types.h).
#pragma once

#include <cstddef>

#include "common/kernels/isa.h"
#include "common/kernels/kernel_types.h"

namespace kvrelay::kernels {

// The set for an instruction set. REQUIRES: IsaSupported(isa).
const Kernels& KernelsFor(Isa isa);

// Size of AttentionTask::scratch.
size_t AttentionScratchFloats(int head_dim);

// Sets rounding to nearest and denormals on (no flush) for the calling thread.
void ComputeThreadInit();

}  // namespace kvrelay::kernels
