// The long same-bits run: a 3-way covering set on the whole model, and with scalar kernels on its first two layers.
// Prints one line per case and exits with 1 if any bit differs.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "common/base/clock.h"
#include "tests/engine/covering.h"
#include "tests/engine/same_bits.h"
#include "tests/model/test_model.h"

namespace kvrelay::testing {
namespace {

constexpr int kPromptLength = 700;
constexpr int kSelections = 3;

class Run {
 public:
  explicit Run(int layers) : layers_(layers) {}

  // Cases whose bits differed or that failed.
  int All(absl::Span<const BitsCase> cases) {
    int bad = 0, done = 0;
    for (const BitsCase& c : cases) {
      const absl::Duration began = Clock::Real()->Now();
      const std::string problem = One(c);
      std::printf("%3d/%zu %-44s %2d layers  %6.1f s  %s\n", ++done, cases.size(), NameOf(c).c_str(),
                  ModelFor(c.isa).config().layers, absl::ToDoubleSeconds(Clock::Real()->Now() - began),
                  problem.empty() ? "same bits" : problem.c_str());
      std::fflush(stdout);
      bad += !problem.empty();
    }
    return bad;
  }

 private:
  const model::Model& ModelFor(kernels::Isa isa) {
    auto& model = models_[isa];
    if (model == nullptr) model = LoadTestModel(kernels::MatmulBackend::kNative, isa, layers_);
    return *model;
  }

  std::string One(const BitsCase& c) {
    const model::Model& model = ModelFor(c.isa);
    if (model.kernel_id() != kernels::IsaName(c.isa)) return "ran on kernels " + model.kernel_id();
    const auto prompt = MakePrompt(kPromptLength, model.config().vocabulary, 1);
    auto [it, is_new] = references_.try_emplace(c.kv_type);
    if (is_new) {
      const kernels::Isa isa = kernels::BestIsa();
      auto reference = RunCase(ModelFor(isa), {.isa = isa, .kv_type = c.kv_type}, prompt, kSelections);
      if (!reference.ok()) return reference.status().ToString();
      it->second = *std::move(reference);
    }
    auto result = RunCase(model, c, prompt, kSelections);
    if (!result.ok()) return result.status().ToString();
    if (c.batch > 1 && result->rows_in_step_max < static_cast<uint32_t>(c.batch)) return "the batch shared no step";
    return Difference(it->second, *result);
  }

  const int layers_;
  std::map<kernels::Isa, std::unique_ptr<model::Model>> models_;
  std::map<kv::KvType, BitsResult> references_;
};

int Main() {
  const std::vector<kernels::Isa> isas = SupportedIsas();
  int bad = Run(0).All(CoveringCases(3, isas, /*with_scalar=*/false));
  bad += Run(2).All(CoveringCases(3, isas, /*with_scalar=*/true));
  std::printf("%s\n", bad == 0 ? "all cases gave the same bits" : "some bits differ");
  return bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kvrelay::testing

int main() { return kvrelay::testing::Main(); }
