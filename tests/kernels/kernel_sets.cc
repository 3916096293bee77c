#include "tests/kernels/kernel_sets.h"

#include "tests/kernels/simde_avx512.h"

namespace kvrelay::kernels::testing {

std::vector<KernelSet> SetsUnderTest() {
  std::vector<KernelSet> sets;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512Vnni}) {
    if (IsaSupported(isa)) sets.push_back({std::string(IsaName(isa)), &KernelsFor(isa)});
  }
#ifdef KVRELAY_SIMDE
  if (IsaSupported(Isa::kAvx2)) sets.push_back({"avx512vnni emulated", &kSimdeAvx512Kernels});
#endif
  return sets;
}

}  // namespace kvrelay::kernels::testing
