// Every family of models, in both file formats, against what transformers computes with the same weights: tiny models
// with random weights (make_family_goldens.py). Their weights are floats and the cache is f32, so nothing but the order
// of sums differs, and a rotation, bias, norm or scaling that is wrong shows at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv/sequence_cache.h"
#include "common/model/forward.h"
#include "common/model/model.h"
#include "common/text/tokenizer.h"
#include "tests/golden/golden_reader.h"

namespace kvrelay::testing {
namespace {

constexpr float kTolerance = 1e-4f;  // of logits, which range over about 8

absl::StatusOr<std::unique_ptr<model::Model>> Load(const std::string& path) {
  auto file = model_file::ModelFile::Open(path);
  if (!file.ok()) return file.status();
  return model::Model::Load(**file, kernels::MatmulBackend::kNative, kernels::BestIsa());
}

// Logits after every position of `ids`.
std::vector<std::vector<float>> Logits(const model::Model& model, const std::vector<int32_t>& ids, kv::KvType type) {
  const model::ModelConfig& c = model.config();
  const int count = static_cast<int>(ids.size());
  model::ThreadPool threads(2);
  auto pool = *kv::BlockPool::Create({c.layers, c.kv_heads, c.head_dim, type}, kv::BlocksFor(count));
  auto forward = *model::Forward::Create(&model, &threads, count, count, count);
  auto cache = *kv::SequenceCache::Reserve(pool.get(), count);
  model::Chunk chunk{.cache = cache.get(), .tokens = ids, .first_position = 0, .logits_wanted = count, .error = {}};
  forward->Run(absl::MakeSpan(&chunk, 1), nullptr);
  EXPECT_TRUE(chunk.error.ok()) << chunk.error;
  std::vector<std::vector<float>> logits;
  for (int row = 0; row < count; ++row)
    logits.emplace_back(forward->Logits(0, row).begin(), forward->Logits(0, row).end());
  return logits;
}

// The largest difference of a logit of the golden's positions.
float WorstDifference(const FamilyGolden& golden, const std::vector<std::vector<float>>& logits) {
  float worst = 0;
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    const std::vector<float>& ours = logits[golden.positions[i]];
    EXPECT_EQ(ours.size(), golden.logits[i].size());
    for (size_t id = 0; id < ours.size(); ++id) {
      // Written so that NaN counts as different.
      if (!(std::abs(ours[id] - golden.logits[i][id]) <= worst)) worst = std::abs(ours[id] - golden.logits[i][id]);
    }
  }
  return worst;
}

int Agreeing(const FamilyGolden& golden, const std::vector<std::vector<float>>& logits) {
  int agreeing = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    agreeing += std::max_element(logits[i].begin(), logits[i].end()) - logits[i].begin() == golden.top[i];
  return agreeing;
}

TEST(Families, LogitsAreThoseOfTransformers) {
  const auto goldens = LoadFamilyGoldens();
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  EXPECT_EQ(goldens->size(), 10u);
  std::printf("%-14s %-11s %-7s %-21s %-10s %s\n", "family", "format", "weights", "max logit difference", "tolerance",
              "top-1 agreement");
  for (const FamilyGolden& golden : *goldens) {
    for (const std::string& path : {golden.gguf, golden.folder}) {
      const auto model = Load(path);
      ASSERT_TRUE(model.ok()) << golden.name << ": " << model.status();
      const auto logits = Logits(**model, golden.ids, kv::KvType::kF32);
      const float worst = WorstDifference(golden, logits);
      const int agreeing = Agreeing(golden, logits);
      EXPECT_LE(worst, kTolerance) << path;
      EXPECT_EQ(agreeing, static_cast<int>(golden.top.size())) << path;
      std::printf("%-14s %-11s %-7s %-21.1e %-10.0e %d of %zu\n", golden.name.c_str(),
                  path == golden.gguf ? "GGUF" : "safetensors", (*model)->weight_format().c_str(), worst, kTolerance,
                  agreeing, golden.top.size());
    }
  }
}

// A folder and the file that was converted from it are one model, to the bit. Llama 3's file has rounded divisors of
// angles, where its folder has the formula.
TEST(Families, BothFormatsGiveTheSameBits) {
  const auto goldens = LoadFamilyGoldens();
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  for (const FamilyGolden& golden : *goldens) {
    if (golden.name == "llama3") continue;
    const auto file = Load(golden.gguf), folder = Load(golden.folder);
    ASSERT_TRUE(file.ok() && folder.ok()) << file.status() << folder.status();
    EXPECT_EQ(Logits(**file, golden.ids, kv::KvType::kF16), Logits(**folder, golden.ids, kv::KvType::kF16))
        << golden.name;
    EXPECT_NE((*file)->fingerprint(), (*folder)->fingerprint()) << "workers that share a service open the same one";
  }
}

// Ids of texts: byte-level BPE and SentencePiece.
TEST(Families, IdsAreThoseOfHuggingFace) {
  const auto goldens = LoadFamilyGoldens();
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  for (const FamilyGolden& golden : *goldens) {
    for (const std::string& path : {golden.gguf, golden.folder}) {
      auto file = model_file::ModelFile::Open(path);
      ASSERT_TRUE(file.ok()) << file.status();
      const auto tokenizer = text::Tokenizer::FromFile(**file);
      ASSERT_TRUE(tokenizer.ok()) << path << ": " << tokenizer.status();
      EXPECT_TRUE((*tokenizer)->has_chat_template()) << path;
      EXPECT_EQ((*tokenizer)->eos_ids().at(0), 2) << path;
      for (const auto& [text, expected] : golden.texts) {
        // A GGUF file cannot say that a space is put before the beginning only, and only if there is none.
        const bool tells_spaces = golden.name != "mistral" || path == golden.folder;
        if (!tells_spaces && (text.starts_with(" ") || text.find("<s>") != std::string::npos)) continue;
        const auto ids = (*tokenizer)->EncodeText(text);
        ASSERT_TRUE(ids.ok()) << ids.status();
        EXPECT_EQ(*ids, expected) << path << ": \"" << text << '"';
      }
    }
  }
}

// Heads may be wider than width / heads: what a handoff ships follows the heads.
TEST(Families, KvBytesFollowTheHeads) {
  const auto goldens = LoadFamilyGoldens();
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  for (const FamilyGolden& golden : *goldens) {
    if (golden.name != "qwen3" && golden.name != "mistral") continue;
    const auto model = Load(golden.gguf);
    ASSERT_TRUE(model.ok()) << model.status();
    const model::ModelConfig& c = (*model)->config();
    EXPECT_NE(c.head_dim * c.heads, c.width) << golden.name;
    const kv::KvLayout layout{c.layers, c.kv_heads, c.head_dim, kv::KvType::kInt8};
    EXPECT_EQ(layout.PositionBytes(), 2u * 2 * 34) << golden.name << ": keys and values, 2 heads of 32 in int8";
  }
}

}  // namespace
}  // namespace kvrelay::testing
