// How far the engine's distributions are from a reference: mean Kullback-Leibler divergence and perplexity over the
// windows of a base file (base_logits.h). All windows advance together, one row each.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/status_macros.h"
#include "common/kv/block_pool.h"
#include "common/kv/sequence_cache.h"
#include "common/model/forward.h"
#include "tests/bench/base_logits.h"
#include "tests/bench/model_options.h"

namespace kvrelay::bench {
namespace {

struct Options : ModelOptions {
  std::string base;
};

// Base log-probabilities below this weigh nothing (as in the program that wrote them: its 16 bits end there).
constexpr double kFloor = -16;

struct Score {
  double kl = 0, negative_log = 0, base_negative_log = 0;
  long same_top = 0, count = 0;

  void Add(absl::Span<const float> logits, absl::Span<const float> base, int32_t next) {
    const float top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double(logit) - top);
    const double log_sum = top + std::log(sum);
    for (size_t i = 0; i < base.size(); ++i) {
      if (base[i] > kFloor) kl += std::exp(double(base[i])) * (base[i] - (logits[i] - log_sum));
    }
    negative_log += log_sum - logits[next];
    base_negative_log -= base[next];
    same_top += std::max_element(logits.begin(), logits.end()) - logits.begin() ==
                std::max_element(base.begin(), base.end()) - base.begin();
    ++count;
  }
};

absl::StatusOr<Score> Measure(const Options& options) {
  KV_ASSIGN_OR_RETURN(BaseLogits base, BaseLogits::Open(options.base));
  KV_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModel(options));
  const model::ModelConfig& config = loaded.model->config();
  if (config.vocabulary != base.vocabulary()) {
    return absl::InvalidArgumentError("the base file has another vocabulary than the model");
  }
  const int windows = base.windows(), rows = windows * base.first_scored();
  model::ThreadPool threads(loaded.threads);
  KV_ASSIGN_OR_RETURN(const auto forward,
                      model::Forward::Create(loaded.model.get(), &threads, rows, windows, base.window()));
  KV_ASSIGN_OR_RETURN(const auto pool,
                      kv::BlockPool::Create({config.layers, config.kv_heads, config.head_dim, loaded.kv_type},
                                            windows * kv::BlocksFor(base.window())));
  std::vector<std::shared_ptr<kv::SequenceCache>> caches;
  for (int w = 0; w < windows; ++w) {
    KV_ASSIGN_OR_RETURN(auto cache, kv::SequenceCache::Reserve(pool.get(), base.window()));
    caches.push_back(std::move(cache));
  }
  // Feeds positions [from, to) of every window.
  std::vector<model::Chunk> chunks(windows);
  const auto feed = [&](int from, int to, bool wants_logits) -> absl::Status {
    for (int w = 0; w < windows; ++w) {
      chunks[w] = {};
      chunks[w].cache = caches[w].get();
      chunks[w].tokens = base.Tokens(w).subspan(from, to - from);
      chunks[w].first_position = from;
      chunks[w].logits_wanted = wants_logits;
    }
    forward->Run(absl::MakeSpan(chunks), [](int) {});
    for (const model::Chunk& chunk : chunks) KV_RETURN_IF_ERROR(chunk.error);
    return absl::OkStatus();
  };
  KV_RETURN_IF_ERROR(feed(0, base.first_scored(), false));
  Score score;
  std::vector<float> reference(config.vocabulary);
  for (int index = 0; index < base.scored(); ++index) {
    const int position = base.first_scored() + index;
    KV_RETURN_IF_ERROR(feed(position, position + 1, true));
    for (int w = 0; w < windows; ++w) {
      KV_RETURN_IF_ERROR(base.Read(w, index, absl::MakeSpan(reference)));
      score.Add(forward->Logits(w), reference, base.Tokens(w)[position + 1]);
    }
  }
  return score;
}

}  // namespace
}  // namespace kvrelay::bench

int main(int argc, char** argv) {
  kvrelay::bench::Options options;
  CLI::App app("Mean KL divergence to the distributions of a base file, and perplexity; prints one JSON object");
  AddModelOptions(app, options);
  app.add_option("--base", options.base, "file of llama-perplexity --kl-divergence-base")->required();
  CLI11_PARSE(app, argc, argv);
  const auto score = kvrelay::bench::Measure(options);
  if (!score.ok()) {
    std::fprintf(stderr, "%s\n", std::string(score.status().message()).c_str());
    return 1;
  }
  const double count = static_cast<double>(score->count);
  std::printf("%s\n", nlohmann::json{{"mean_kl", score->kl / count},
                                     {"perplexity", std::exp(score->negative_log / count)},
                                     {"base_perplexity", std::exp(score->base_negative_log / count)},
                                     {"same_top", score->same_top / count},
                                     {"positions", score->count},
                                     {"matmul", options.matmul},
                                     {"kv_type", options.kv_type}}
                          .dump()
                          .c_str());
  return 0;
}
