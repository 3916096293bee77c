// The kernel sets that can run here, for tests that demand the same bits from all of them.
#pragma once

#include <string>
#include <vector>

#include "common/kernels/kernels.h"

namespace kvrelay::kernels::testing {

struct KernelSet {
  std::string name;
  const Kernels* kernels;
};

// Scalar, each instruction set of this CPU, and the AVX-512 source compiled against an emulation of its instructions
// (simde_avx512.cc), so that its code is proved on CPUs without them.
std::vector<KernelSet> SetsUnderTest();

}  // namespace kvrelay::kernels::testing
