// Prefill and decode rates of the engine in this process, beside the limits of the machine.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/engine/engine.h"
#include "common/model_file/model_file.h"
#include "common/text/tokenizer.h"
#include "tests/bench/draft_rates.h"
#include "tests/bench/engine_rates.h"
#include "tests/bench/limits.h"
#include "tests/bench/model_options.h"

namespace kvrelay::bench {
namespace {

constexpr double kMib = 1 << 20;

struct Options : ModelOptions {
  bool json = false, long_contexts = false;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  absl::Status Run() {
    const auto loaded = LoadModel(options_);
    if (!loaded.ok()) return loaded.status();
    const model::Model& model = *loaded->model;
    engine::EngineOptions engine_options;
    engine_options.threads = loaded->threads;
    engine_options.kv_type = loaded->kv_type;
    engine_options.kv_blocks = 600;
    engine_options.step_budget = absl::Seconds(10);  // all prompts first: the streams are timed together
    engine_options.draft_tokens = 0;                 // rates of the engine itself, whatever the text
    auto engine = engine::Engine::Create(&model, engine_options, Clock::Real());
    if (!engine.ok()) return engine.status();
    limits_ = MeasureLimits(loaded->threads);
    Say("cpu", CpuName());
    Say("kernels", model.kernel_id());
    Say("threads", loaded->threads);
    Say("load_s", loaded->load_s);
    Say("read_gb_per_s", limits_.read_gb_per_s);
    Say("f32_gflop_per_s", limits_.f32_gflop_per_s);
    Say("int8_gop_per_s", limits_.int8_gop_per_s);
    Rates(**engine);
    KV_RETURN_IF_ERROR(Drafting(**engine, engine_options));
    Say("resident_mib", ResidentMib());
    Say("weights_mib", model.weight_bytes() / kMib);
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

  absl::Status Drafting(engine::Engine& plain, engine::EngineOptions options) {
    options.draft_tokens = engine::EngineOptions().draft_tokens;
    options.kv_blocks = 16;
    KV_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> drafting,
                        engine::Engine::Create(&plain.model(), options, Clock::Real()));
    KV_ASSIGN_OR_RETURN(const auto file, model_file::ModelFile::Open(options_.model));
    KV_ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::FromFile(*file));
    KV_ASSIGN_OR_RETURN(const DraftRates rates, MeasureDrafting(plain, *drafting, *tokenizer));
    const auto beside = [](uint64_t right, uint64_t made) {
      return absl::StrCat("   with guesses over without; ", right, " of ", made, " right");
    };
    Say("drafting_copying", rates.copying, beside(rates.copying_right, rates.copying_made));
    Say("drafting_free_prose", rates.free_prose, beside(rates.free_right, rates.free_made));
    return absl::OkStatus();
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
  AddModelOptions(app, options);
  app.add_flag("--json", options.json, "print one JSON object");
  app.add_flag("--long", options.long_contexts, "add 8,192 positions");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = kvrelay::bench::Bench(options).Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
