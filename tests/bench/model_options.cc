#include "tests/bench/model_options.h"

#include "common/base/clock.h"
#include "common/base/cpu_limit.h"
#include "common/base/status_macros.h"
#include "common/model_file/model_file.h"

namespace kvrelay::bench {

void AddModelOptions(CLI::App& app, ModelOptions& options) {
  app.add_option("--model", options.model, "GGUF file or model folder")->required()->envname("KVRELAY_MODEL");
  app.add_option("--matmul", options.matmul, "native or openblas");
  app.add_option("--isa", options.isa, "auto, scalar, avx2, avx512 or avx512vnni");
  app.add_option("--kv-type", options.kv_type, "f16, f32, bf16 or int8");
  app.add_option("--threads", options.threads, "compute threads; 0: all usable CPUs");
}

absl::StatusOr<LoadedModel> LoadModel(const ModelOptions& options) {
  KV_ASSIGN_OR_RETURN(const auto file, model_file::ModelFile::Open(options.model));
  KV_ASSIGN_OR_RETURN(const auto isa, kernels::ParseIsa(options.isa));
  KV_ASSIGN_OR_RETURN(const auto backend, kernels::ParseMatmulBackend(options.matmul));
  LoadedModel loaded;
  KV_ASSIGN_OR_RETURN(loaded.kv_type, kv::ParseKvType(options.kv_type));
  loaded.threads = options.threads > 0 ? options.threads : UsableCpus();
  const absl::Duration began = Clock::Real()->Now();
  KV_ASSIGN_OR_RETURN(loaded.model, model::Model::Load(*file, backend, isa));
  loaded.load_s = absl::ToDoubleSeconds(Clock::Real()->Now() - began);
  return loaded;
}

}  // namespace kvrelay::bench
