// Our forward pass against an independent implementation in f32 on the same weights.
//
// OpenBLAS with an f32 cache computes the same thing in another order, so every logit must agree within 1e-3 of the
// range of the logits, and a greedy token may differ only where the reference itself is undecided within that
// tolerance. The native backend quantizes activations to int8 and the cache to f16; there the distance of the
// distributions (KL) is bounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv/sequence_cache.h"
#include "common/model/forward.h"
#include "common/model/model.h"
#include "tests/golden/golden_reader.h"

namespace kvrelay::testing {
namespace {

using kernels::KvType;
using kernels::MatmulBackend;

constexpr float kTolerance = 1e-3f;  // of the range of the logits
constexpr double kMaxDifferingTokens = 0.02;
constexpr double kMaxMeanKl = 0.02;
constexpr int kMaxRows = 512, kMaxLogits = 64;
constexpr int kThreads = 2;

const ModelGoldens& Goldens() {
  static const auto* const goldens = new absl::StatusOr<ModelGoldens>(LoadModelGoldens());
  if (!goldens->ok()) {
    std::fprintf(stderr, "%s\n", goldens->status().ToString().c_str());
    std::exit(1);
  }
  return **goldens;
}

int LongestSequence() {
  size_t longest = 0;
  for (const GoldenPrompt& prompt : Goldens().prompts) longest = std::max(longest, prompt.Sequence().size());
  return static_cast<int>(longest);
}

// One model with what it needs to run one sequence at a time.
class Runner {
 public:
  Runner(MatmulBackend backend, KvType kv_type) : threads_(kThreads) {
    const char* path = std::getenv("KVRELAY_MODEL");
    Require(path != nullptr, "KVRELAY_MODEL must name SmolLM2-135M-Instruct.Q4_1.gguf");
    auto file = model_file::ModelFile::Open(path);
    Require(file.ok(), file.status().ToString());
    const auto prepared = kernels::InitMatmulBackend(backend, kernels::BestIsa());
    Require(prepared.ok(), prepared.status().ToString());
    auto model = model::Model::Load(**file, backend, kernels::BestIsa());
    Require(model.ok(), model.status().ToString());
    model_ = *std::move(model);
    Require(model_->fingerprint() == Goldens().model_sha256,
            "KVRELAY_MODEL is another file than the goldens were made from");
    const int positions = LongestSequence();
    auto forward = model::Forward::Create(model_.get(), &threads_, kMaxRows, kMaxLogits, positions);
    Require(forward.ok(), forward.status().ToString());
    forward_ = *std::move(forward);
    const model::ModelConfig& config = model_->config();
    auto pool =
        kv::BlockPool::Create({config.layers, config.kv_heads, config.head_dim, kv_type}, kv::BlocksFor(positions));
    Require(pool.ok(), pool.status().ToString());
    pool_ = *std::move(pool);
  }

  // Calls check(record, logits) for each checked position of the prompt.
  template <typename Check>
  void Run(const GoldenPrompt& prompt, const Check& check) {
    const std::vector<int32_t> sequence = prompt.Sequence();
    auto cache = kv::SequenceCache::Reserve(pool_.get(), static_cast<int>(sequence.size()));
    Require(cache.ok(), cache.status().ToString());
    const std::vector<int>& positions = prompt.positions;
    int done = 0;
    for (size_t i = 0; i < positions.size();) {
      // Positions that lie close together are the last rows of one chunk.
      const int first = positions[i];
      size_t last = i;
      while (last + 1 < positions.size() && positions[last + 1] - first < kMaxLogits) ++last;
      for (const int end = positions[last] + 1; done < end;) {
        const int rows = std::min(end - done, kMaxRows);
        RunChunk(cache->get(), absl::MakeConstSpan(sequence).subspan(done, rows), done,
                 done + rows == end ? end - first : 0);
        done += rows;
      }
      for (; i <= last; ++i) check(prompt.records[i], forward_->Logits(0, positions[i] - first));
    }
  }

 private:
  static void Require(bool condition, const std::string& message) {
    if (condition) return;
    std::fprintf(stderr, "golden test: %s\n", message.c_str());
    std::exit(1);
  }

  void RunChunk(kv::SequenceCache* cache, absl::Span<const int32_t> tokens, int first_position, int logits_wanted) {
    model::Chunk chunk = {};
    chunk.cache = cache;
    chunk.tokens = tokens;
    chunk.first_position = first_position;
    chunk.logits_wanted = logits_wanted;
    forward_->Run(absl::MakeSpan(&chunk, 1), [](int) {});
    Require(chunk.error.ok(), chunk.error.ToString());
  }

  model::ThreadPool threads_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<model::Forward> forward_;
  std::unique_ptr<kv::BlockPool> pool_;
};

// Ties go to the lowest id.
uint32_t Greedy(absl::Span<const float> logits) {
  return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Largest difference of a logit that the record holds, as a share of the range.
float WorstDifference(const GoldenRecord& record, absl::Span<const float> logits) {
  float worst = 0;
  const auto see = [&](float ours, float reference) {
    // Written so that NaN counts as different.
    if (!(std::abs(ours - reference) <= worst)) worst = std::abs(ours - reference);
  };
  for (int i = 0; i < kGoldenTop; ++i) see(logits[record.top_ids[i]], record.top_logits[i]);
  for (int i = 0; i < kGoldenFixed; ++i) see(logits[Goldens().fixed_ids[i]], record.fixed_logits[i]);
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  see(*low, record.min);
  see(*high, record.max);
  return worst / record.Range();
}

// KL(reference || ours) over the reference's top ids, both renormalized to them.
double TopKl(const GoldenRecord& record, absl::Span<const float> logits) {
  std::array<double, kGoldenTop> ours;
  for (int i = 0; i < kGoldenTop; ++i) ours[i] = logits[record.top_ids[i]];
  const double our_max = *std::max_element(ours.begin(), ours.end());
  const double reference_max = record.top_logits[0];
  double our_sum = 0;
  double reference_sum = 0;
  for (int i = 0; i < kGoldenTop; ++i) {
    our_sum += std::exp(ours[i] - our_max);
    reference_sum += std::exp(record.top_logits[i] - reference_max);
  }
  double kl = 0;
  for (int i = 0; i < kGoldenTop; ++i) {
    const double log_p = record.top_logits[i] - reference_max - std::log(reference_sum);
    kl += std::exp(log_p) * (log_p - (ours[i] - our_max - std::log(our_sum)));
  }
  return kl;
}

TEST(Golden, TheSetIsWhatItShouldBe) {
  ASSERT_GE(Goldens().prompts.size(), 24u);
  size_t longest_prompt = 0;
  size_t followed = 0;
  for (const GoldenPrompt& prompt : Goldens().prompts) {
    longest_prompt = std::max(longest_prompt, prompt.ids.size());
    followed += !prompt.greedy.empty();
    EXPECT_EQ(std::count(prompt.positions.begin(), prompt.positions.end(), int(prompt.ids.size()) - 1), 1)
        << prompt.name;
    for (size_t i = 0; i < prompt.positions.size(); ++i) {
      const GoldenRecord& record = prompt.records[i];
      EXPECT_EQ(record.max, record.top_logits[0]) << prompt.name;
      EXPECT_EQ(record.gap, record.top_logits[0] - record.top_logits[1]) << prompt.name;
      EXPECT_LT(record.min, record.max) << prompt.name;
      // The reference chose what its own logits say (computed once with a cache, once without: ties may fall either
      // way).
      const int step = prompt.positions[i] + 1 - int(prompt.ids.size());
      if (step >= 0 && step < int(prompt.greedy.size()) && record.gap > kTolerance * record.Range()) {
        EXPECT_EQ(int32_t(record.top_ids[0]), prompt.greedy[step]) << prompt.name << ", step " << step;
      }
    }
  }
  EXPECT_GE(longest_prompt, 1990u);
  EXPECT_GE(followed, 8u);
}

TEST(Golden, OpenBlasWithF32Cache) {
  Runner runner(MatmulBackend::kOpenBlas, KvType::kF32);
  int positions = 0;
  int differing = 0;
  float worst = 0;
  for (const GoldenPrompt& prompt : Goldens().prompts) {
    SCOPED_TRACE(prompt.name);
    size_t index = 0;
    runner.Run(prompt, [&](const GoldenRecord& record, absl::Span<const float> logits) {
      const float difference = WorstDifference(record, logits);
      EXPECT_LE(difference, kTolerance) << "position " << prompt.positions[index];
      if (Greedy(logits) != record.top_ids[0]) {
        ++differing;
        EXPECT_LT(record.gap, kTolerance * record.Range()) << "position " << prompt.positions[index];
      }
      worst = std::max(worst, difference);
      ++positions;
      ++index;
    });
  }
  EXPECT_LE(differing, kMaxDifferingTokens * positions);
  std::printf("openblas, f32 cache: %d positions, worst difference %.2e of the range, %d greedy tokens differ\n",
              positions, worst, differing);
}

TEST(Golden, NativeWithF16Cache) {
  Runner runner(MatmulBackend::kNative, KvType::kF16);
  int positions = 0;
  int differing = 0;
  double kl_sum = 0;
  double kl_worst = 0;
  for (const GoldenPrompt& prompt : Goldens().prompts) {
    runner.Run(prompt, [&](const GoldenRecord& record, absl::Span<const float> logits) {
      const double kl = TopKl(record, logits);
      ASSERT_FALSE(std::isnan(kl)) << prompt.name;
      kl_sum += kl;
      kl_worst = std::max(kl_worst, kl);
      differing += Greedy(logits) != record.top_ids[0];
      ++positions;
    });
  }
  const double mean = kl_sum / positions;
  EXPECT_LT(mean, kMaxMeanKl);
  std::printf("native, f16 cache: %d positions, mean KL %.3e, worst %.3e, %d greedy tokens differ\n", positions, mean,
              kl_worst, differing);
}

}  // namespace
}  // namespace kvrelay::testing
