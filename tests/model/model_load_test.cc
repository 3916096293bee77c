// Loading models: shapes, refusals, and backends that agree.
#include <gtest/gtest.h>

#include <cmath>

#include "common/model/forward.h"
#include "common/model/model.h"
#include "tests/model/test_model.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::model {
namespace {

absl::StatusOr<std::unique_ptr<Model>> Load(const testing::GgufWriter& writer) {
  const testing::MemoryFile memory(writer.Bytes());
  auto file = model_file::ModelFile::Open(memory.path());
  if (!file.ok()) return file.status();
  return Model::Load(**file, kernels::MatmulBackend::kNative, kernels::BestIsa());
}

// Loading fails with that code and names what is wrong.
void ExpectRefused(const testing::GgufWriter& writer, absl::StatusCode code, const std::string& named) {
  const auto model = Load(writer);
  ASSERT_FALSE(model.ok()) << named;
  EXPECT_EQ(model.status().code(), code) << model.status();
  EXPECT_NE(model.status().message().find(named), std::string::npos) << model.status();
}

TEST(ModelLoad, DefaultModelHasItsKnownShape) {
  const auto model = testing::LoadTestModel(kernels::MatmulBackend::kNative, kernels::BestIsa(), 2);
  const ModelConfig& c = model->config();
  EXPECT_EQ(c.width, 576);
  EXPECT_EQ(c.ffn_width, 1536);
  EXPECT_EQ(c.heads, 9);
  EXPECT_EQ(c.kv_heads, 3);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.context_length, 8192);
  EXPECT_EQ(c.vocabulary, 49152);
  EXPECT_EQ(c.rope_theta, 100000.0f);
  EXPECT_EQ(model->weight_format(), "Q8_0") << "two layers hold fewer weights than the embedding";
  EXPECT_EQ(model->fingerprint(), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
  EXPECT_EQ(model->head().data, model->embedding().data) << "the head is tied";
}

TEST(ModelLoad, RefusesWhatItCannotRun) {
  using absl::StatusCode;
  testing::GgufWriter writer = testing::TinyModel({});
  writer.DropKey("general.architecture");
  writer.AddString("general.architecture", "mamba");
  ExpectRefused(writer, StatusCode::kUnimplemented, "mamba");

  writer = testing::TinyModel({});
  writer.DropKey("llama.block_count");
  writer.AddUint32("llama.block_count", 0);
  ExpectRefused(writer, StatusCode::kInvalidArgument, "llama.block_count");

  writer = testing::TinyModel({});
  writer.DropKey("llama.block_count");
  writer.AddUint32("llama.block_count", 3);
  ExpectRefused(writer, StatusCode::kNotFound, "blk.2.");

  writer = testing::TinyModel({});
  writer.DropKey("llama.attention.head_count_kv");
  writer.AddUint32("llama.attention.head_count_kv", 3);
  ExpectRefused(writer, StatusCode::kInvalidArgument, "3 KV heads");

  writer = testing::TinyModel({});
  writer.DropKey("llama.embedding_length");
  writer.AddUint32("llama.embedding_length", 128);
  ExpectRefused(writer, StatusCode::kInvalidArgument, "expected [");

  writer = testing::TinyModel({});
  writer.DropKey("llama.attention.layer_norm_rms_epsilon");
  writer.AddFloat32("llama.attention.layer_norm_rms_epsilon", std::nanf(""));
  ExpectRefused(writer, StatusCode::kInvalidArgument, "layer_norm_rms_epsilon");

  writer = testing::TinyModel({});
  writer.DropKey("llama.context_length");
  writer.AddUint32("llama.context_length", 0xffffffffu);
  ExpectRefused(writer, StatusCode::kInvalidArgument, "llama.context_length");
}

// An option or tensor that is not known might change what the model computes, so it is refused by name.
TEST(ModelLoad, RefusesWhatItDoesNotKnow) {
  using absl::StatusCode;
  const auto refused = [](const auto& change, StatusCode code, const std::string& named) {
    testing::GgufWriter writer = testing::TinyModel({});
    change(writer);
    ExpectRefused(writer, code, named);
  };
  refused([](auto& w) { w.AddFloat32("llama.attn_logit_softcapping", 50); }, StatusCode::kUnimplemented,
          "llama.attn_logit_softcapping");
  refused([](auto& w) { w.AddUint32("llama.expert_count", 8); }, StatusCode::kUnimplemented, "llama.expert_count");
  refused([](auto& w) { w.AddBool("llama.attention.causal", false); }, StatusCode::kUnimplemented,
          "llama.attention.causal");
  refused([](auto& w) { w.AddString("llama.rope.scaling.type", "longrope"); }, StatusCode::kUnimplemented, "longrope");
  refused([](auto& w) { w.AddFloat32("llama.rope.scaling.factor", 0.5f); }, StatusCode::kInvalidArgument,
          "llama.rope.scaling.factor");
  refused([](auto& w) { w.AddUint32("llama.attention.value_length", 32); }, StatusCode::kInvalidArgument,
          "llama.attention.value_length");
  const auto add_vector = [](const std::string& name, std::vector<float> values) {
    return [=](auto& w) {
      w.AddTensor(name, model_file::TensorType::kF32, {values.size()},
                  std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    };
  };
  refused(add_vector("blk.0.attn_output.bias", std::vector<float>(64, 1)), StatusCode::kUnimplemented,
          "blk.0.attn_output.bias");
  refused(add_vector("blk.0.attn_q_norm.weight", std::vector<float>(16, 1)), StatusCode::kUnimplemented,
          "blk.0.attn_q_norm.weight");
  refused(add_vector("rope_freqs.weight", std::vector<float>(8, 0)), StatusCode::kInvalidArgument, "rope_freqs.weight");
  refused(add_vector("rope_freqs.weight", std::vector<float>(7, 1)), StatusCode::kInvalidArgument, "rope_freqs.weight");

  testing::GgufWriter writer = testing::TinyModel({.architecture = "qwen2"});
  writer.DropTensor("blk.1.attn_k.bias");
  ExpectRefused(writer, StatusCode::kNotFound, "blk.1.attn_k.bias");
}

// Inside the window that a model attends to, windowed attention is full attention; beyond it nothing is served.
TEST(ModelLoad, AnAttentionWindowBoundsTheContext) {
  testing::GgufWriter writer = testing::TinyModel({});
  writer.AddUint32("llama.attention.sliding_window", 100);
  const auto model = Load(writer);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->config().context_length, 100);
}

// The second backend computes the same function within a tolerance that follows from 8-bit activations.
TEST(ModelLoad, BackendsAgree) {
  for (auto type : {model_file::TensorType::kF32, model_file::TensorType::kQ8_0}) {
    std::vector<std::vector<float>> results;
    for (auto backend : {kernels::MatmulBackend::kNative, kernels::MatmulBackend::kOpenBlas}) {
      const testing::MemoryFile memory(testing::TinyModelBytes({.weight_type = type, .tied_head = false}));
      auto file = model_file::ModelFile::Open(memory.path());
      ASSERT_TRUE(file.ok()) << file.status();
      auto model = Model::Load(**file, backend, kernels::BestIsa());
      ASSERT_TRUE(model.ok()) << model.status();
      ThreadPool threads(2);
      auto pool = *kv::BlockPool::Create({2, 2, 16, kv::KvType::kF32}, 8);
      auto forward = *Forward::Create(model->get(), &threads, 40, 1, 64);
      auto cache = *kv::SequenceCache::Reserve(pool.get(), 40);
      std::vector<int32_t> prompt(33);
      for (int i = 0; i < 33; ++i) prompt[i] = 5 + i * 7 % 240;
      Chunk chunk{.cache = cache.get(), .tokens = prompt, .first_position = 0, .logits_wanted = 1, .error = {}};
      forward->Run(absl::MakeSpan(&chunk, 1), nullptr);
      results.emplace_back(forward->Logits(0).begin(), forward->Logits(0).end());
    }
    const auto [low, high] = std::minmax_element(results[1].begin(), results[1].end());
    const float tolerance = (*high - *low) * (type == model_file::TensorType::kF32 ? 1e-5f : 0.03f);
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], tolerance) << i;
  }
}

}  // namespace
}  // namespace kvrelay::model
