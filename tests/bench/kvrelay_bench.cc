// Prefill and decode rates of the engine in this process, beside the limits of the machine.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/cpu_limit.h"
#include "common/engine/engine.h"
#include "common/model_file/gguf.h"
#include "tests/bench/engine_rates.h"
#include "tests/bench/limits.h"

namespace kvrelay::bench {
namespace {

constexpr double kMib = 1 << 20;

struct Options {
  std::string model, matmul = "native", isa = "auto", kv_type = "f16";
  int threads = 0;
  bool json = false, long_contexts = false;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  absl::Status Run() {
    auto file = model_file::GgufFile::Open(options_.model);
    if (!file.ok()) return file.status();
    auto isa = kernels::ParseIsa(options_.isa);
    if (!isa.ok()) return isa.status();
    auto backend = kernels::ParseMatmulBackend(options_.matmul);
    if (!backend.ok()) return backend.status();
    auto kv_type = kv::ParseKvType(options_.kv_type);
    if (!kv_type.ok()) return kv_type.status();
    const int threads = options_.threads > 0 ? options_.threads : UsableCpus();
    const absl::Duration began = Clock::Real()->Now();
    auto model = model::Model::Load(**file, *backend, *isa);
    if (!model.ok()) return model.status();
    const double load_s = absl::ToDoubleSeconds(Clock::Real()->Now() - began);
    engine::EngineOptions engine_options;
    engine_options.threads = threads;
    engine_options.kv_type = *kv_type;
    engine_options.kv_blocks = 600;
    engine_options.step_budget = absl::Seconds(10);  // all prompts first: the streams are timed together
    auto engine = engine::Engine::Create(model->get(), engine_options, Clock::Real());
    if (!engine.ok()) return engine.status();
    limits_ = MeasureLimits(threads);
    Say("cpu", CpuName());
    Say("kernels", (*model)->kernel_id());
    Say("threads", threads);
    Say("load_s", load_s);
    Say("read_gb_per_s", limits_.read_gb_per_s);
    Say("f32_gflop_per_s", limits_.f32_gflop_per_s);
    Say("int8_gop_per_s", limits_.int8_gop_per_s);
    Rates(**engine);
    Say("resident_mib", ResidentMib());
    Say("weights_mib", (*model)->weight_bytes() / kMib);
    Say("kv_pool_mib", engine_options.kv_blocks * double((*engine)->kv_layout().BlockBytes()) / kMib);
    if (options_.json) std::printf("%s\n", result_.dump().c_str());
    return absl::OkStatus();
  }

 private:
  template <typename T>
  void Say(const std::string& name, const T& value, const std::string& beside = "") {
    result_[name] = value;
    if (!options_.json) std::printf("%-24s %s%s\n", name.c_str(), nlohmann::json(value).dump().c_str(), beside.c_str());
    std::fflush(stdout);
  }

  // Multiply-adds of all layers per token, from the shapes; the head is computed for one prompt row only.
  static double LayerOperations(const model::ModelConfig& c) {
    const double q = double(c.heads) * c.head_dim, kv = double(c.kv_heads) * c.head_dim;
    return 2.0 * c.layers * c.width * (2 * q + 2 * kv + 3.0 * c.ffn_width);
  }

  void Rates(engine::Engine& engine) {
    const model::Model& model = engine.model();
    const double prefill_limit = limits_.int8_gop_per_s * 1e9 / LayerOperations(model.config());
    const double decode_limit = limits_.read_gb_per_s * 1e9 / model.weight_bytes();
    for (int tokens : {128, 512, 2048, 8192}) {
      if (tokens > 2048 && !options_.long_contexts) continue;
      const double rate = PrefillRate(engine, std::min(tokens, engine.context_length() - 1), tokens > 2048 ? 1 : 3);
      Rate("prefill_" + std::to_string(tokens), rate, prefill_limit, "the int8 limit");
    }
    for (int batch : {1, 4, 16, 32}) {
      const double rate = DecodeRate(engine, batch, 128, 64);
      if (batch == 1) {
        Rate("decode_1", rate, decode_limit, "the read limit");
      } else {
        Say("decode_" + std::to_string(batch), rate);
      }
    }
    for (int cached : {2048, 8192 - 64}) {
      if (cached > 2048 && !options_.long_contexts) continue;
      Say("decode_1_at_" + std::to_string(cached), DecodeRate(engine, 1, cached, 48));
    }
  }

  void Rate(const std::string& name, double rate, double limit, const char* of) {
    char beside[80];
    std::snprintf(beside, sizeof beside, "   %.0f %% of %s (%.0f)", 100 * rate / limit, of, limit);
    Say(name, rate, beside);
    result_[name + "_share"] = rate / limit;
  }

  static double ResidentMib() {
    std::ifstream file("/proc/self/statm");
    size_t total = 0, resident = 0;
    file >> total >> resident;
    return static_cast<double>(resident) * getpagesize() / kMib;
  }

  const Options options_;
  Limits limits_{};
  nlohmann::json result_ = nlohmann::json::object();
};

}  // namespace
}  // namespace kvrelay::bench

int main(int argc, char** argv) {
  kvrelay::bench::Options options;
  CLI::App app("Prefill and decode rates in tokens per second, beside the limits of the machine");
  app.add_option("--model", options.model, "GGUF file")->required()->envname("KVRELAY_MODEL");
  app.add_option("--matmul", options.matmul, "native or openblas");
  app.add_option("--isa", options.isa, "auto, scalar, avx2, avx512 or avx512vnni");
  app.add_option("--kv-type", options.kv_type, "f16, f32, bf16 or int8");
  app.add_option("--threads", options.threads, "compute threads; 0: all usable CPUs");
  app.add_flag("--json", options.json, "print one JSON object");
  app.add_flag("--long", options.long_contexts, "add 8,192 positions");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = kvrelay::bench::Bench(options).Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
