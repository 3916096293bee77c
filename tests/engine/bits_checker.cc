#include "tests/engine/bits_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model_file/model_file.h"
#include "tests/model/test_model.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::testing {
namespace {

// Heads that every KV type can hold, and room for the batch-mates.
std::unique_ptr<model::Model> LoadTiny(model_file::TensorType weights, const std::string& architecture,
                                       kernels::Isa isa) {
  TinyModelOptions options = TinyModelOf(weights);
  options.head_dim = std::max(options.head_dim, kernels::kKvScaleDims);
  options.context_length = 4096;
  options.architecture = architecture;
  if (architecture == "smollm3") options.layers = 4;  // the fourth is the unrotated one
  const MemoryFile memory(TinyModelBytes(options));
  auto file = model_file::ModelFile::Open(memory.path());
  KV_CHECK(file.ok(), "a tiny model can be read");
  auto model = model::Model::Load(**file, kernels::MatmulBackend::kNative, isa);
  KV_CHECK(model.ok(), "a tiny model can be loaded");
  return *std::move(model);
}

}  // namespace

const model::Model& BitsChecker::ModelFor(kernels::Isa isa, const Weights& weights) {
  auto& model = models_[{isa, weights}];
  if (model == nullptr)
    model = weights.first ? LoadTiny(*weights.first, weights.second, isa)
                          : LoadTestModel(kernels::MatmulBackend::kNative, isa, layers_);
  return *model;
}

absl::StatusOr<BitsResult> BitsChecker::Run(const BitsCase& c, int count) {
  const model::Model& model = ModelFor(c.isa, {c.weights, c.architecture});
  if (model.kernel_id() != kernels::IsaName(c.isa) || model.kernels().isa != c.isa)
    return absl::InternalError("ran on kernels " + model.kernel_id());
  return RunCase(model, c, MakePrompt(prompt_length_, model.config().vocabulary, 1), count);
}

absl::StatusOr<BitsResult> BitsChecker::Reference(const BitsCase& c, int count) {
  const auto [it, is_new] = references_.try_emplace({c.kv_type, Weights{c.weights, c.architecture}, count});
  if (is_new) {
    KV_ASSIGN_OR_RETURN(
        it->second,
        Run({.isa = kernels::BestIsa(), .kv_type = c.kv_type, .weights = c.weights, .architecture = c.architecture},
            count));
  }
  return it->second;
}

std::string BitsChecker::Problem(const BitsCase& c, int count) {
  const auto reference = Reference(c, count);
  if (!reference.ok()) return reference.status().ToString();
  if (reference->logits.size() != static_cast<size_t>(count)) return "the reference ended early";
  const auto result = Run(c, count);
  if (!result.ok()) return result.status().ToString();
  if (c.batch > 1 && result->rows_in_step_max < static_cast<uint32_t>(c.batch)) return "the batch shared no step";
  const uint32_t reused = c.warm ? kWarmTokens / kv::kBlockPositions * kv::kBlockPositions : 0;
  if (result->reused != reused) return absl::StrCat("began with ", result->reused, " positions, not ", reused);
  return Difference(*reference, *result);
}

}  // namespace kvrelay::testing
