#include "tests/kernels/kernel_sets.h"

#include "tests/kernels/simde_avx512.h"

namespace kvrelay::kernels::testing {

std::vector<KernelSet> SetsUnderTest() {
  std::vector<KernelSet> sets;
  for (const Isa isa : kAllIsas) {
    if (IsaSupported(isa)) sets.push_back({std::string(IsaName(isa)), &KernelsFor(isa)});
  }
#ifdef KVRELAY_SIMDE
  if (IsaSupported(Isa::kAvx2)) {
    sets.push_back({"avx512 emulated", &kSimdeAvx512Kernels});
    sets.push_back({"avx512vnni emulated", &kSimdeAvx512VnniKernels});
  }
#endif
  return sets;
}

}  // namespace kvrelay::kernels::testing
