// The long same-bits run: every three values meet on the first two layers of the model, scalar kernels included; every
// two meet on the whole model, and on tiny models of every type of weights. Prints one line per case and exits with 1
// if any bit differs.
#include <cstdio>

#include "common/base/clock.h"
#include "tests/engine/bits_checker.h"
#include "tests/engine/covering.h"
#include "tests/testing/encode_weights.h"

namespace kvrelay::testing {
namespace {

constexpr int kPromptLength = 700;
constexpr int kSelections = 3;

// Cases whose bits differed or that failed.
int RunAll(const char* model, int layers, absl::Span<const BitsCase> cases) {
  BitsChecker checker(kPromptLength, layers);
  int bad = 0, done = 0;
  for (const BitsCase& c : cases) {
    const absl::Duration began = Clock::Real()->Now();
    const std::string problem = checker.Problem(c, kSelections);
    std::printf("%3d/%zu %-49s %-11s %6.1f s  %s\n", ++done, cases.size(), NameOf(c).c_str(), model,
                absl::ToDoubleSeconds(Clock::Real()->Now() - began), problem.empty() ? "same bits" : problem.c_str());
    std::fflush(stdout);
    bad += !problem.empty();
  }
  return bad;
}

int Main() {
  const std::vector<kernels::Isa> isas = SupportedIsas();
  int bad = RunAll("tiny", 0, CoveringCases(2, isas, /*with_scalar=*/true, kAllTypes));
  bad += RunAll("whole model", 0, CoveringCases(2, isas, /*with_scalar=*/false));
  bad += RunAll("two layers", 2, CoveringCases(3, isas, /*with_scalar=*/true));
  std::printf("%s\n", bad == 0 ? "all cases gave the same bits" : "some bits differ");
  return bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kvrelay::testing

int main() { return kvrelay::testing::Main(); }
