// The kernels of this process: which instruction sets there are, and the set of functions for each (kernel_types.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/isa.h"
#include "common/kernels/kernel_types.h"

namespace kvrelay::kernels {

// The set for an instruction set. REQUIRES: IsaSupported(isa).
const Kernels& KernelsFor(Isa isa);

inline constexpr KvType kAllKvTypes[] = {KvType::kF16, KvType::kF32, KvType::kBf16, KvType::kInt8};

// Bytes of one position of one head in a cache: its values and, if the type has them, its scales.
constexpr size_t KvRowBytes(KvType type, int head_dim) {
  const size_t dims = static_cast<size_t>(head_dim);
  if (type == KvType::kInt8) return dims + dims / kKvScaleDims * sizeof(uint16_t);
  return dims * (type == KvType::kF32 ? sizeof(float) : sizeof(uint16_t));
}

// Size of AttentionTask::scratch.
size_t AttentionScratchFloats(int head_dim);

// Sets rounding to nearest and denormals on (no flush) for the calling thread.
void ComputeThreadInit();

}  // namespace kvrelay::kernels
