// The forward pass on small models: what the article says about caches, counts, and failures.
#include "common/model/forward.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "common/kernels/isa.h"
#include "common/model_file/model_file.h"
#include "tests/testing/encode_weights.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::model {
namespace {

using testing::TinyModelOptions;

std::unique_ptr<Model> LoadTiny(const TinyModelOptions& options,
                                kernels::MatmulBackend backend = kernels::MatmulBackend::kNative) {
  const testing::MemoryFile memory(testing::TinyModelBytes(options));
  auto file = model_file::ModelFile::Open(memory.path());
  EXPECT_TRUE(file.ok()) << file.status();
  auto model = Model::Load(**file, backend, kernels::BestIsa());
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// A model with a pool and a pass of its own.
struct Rig {
  explicit Rig(const TinyModelOptions& options = {}, kv::KvType type = kv::KvType::kF16, int threads = 2)
      : model(LoadTiny(options)), threads(threads) {
    const ModelConfig& c = model->config();
    pool = *kv::BlockPool::Create({c.layers, c.kv_heads, c.head_dim, type}, 64);
    forward = *Forward::Create(model.get(), &this->threads, 600, 16, 1024);
  }
  std::shared_ptr<kv::SequenceCache> Cache(int positions = 700) {
    return *kv::SequenceCache::Reserve(pool.get(), positions);
  }
  // Runs `tokens` after what is cached; returns the logits of the last.
  std::vector<float> Run(kv::SequenceCache& cache, absl::Span<const int32_t> tokens) {
    Chunk chunk{.cache = &cache, .tokens = tokens, .first_position = cache.kv_ready(), .logits_wanted = 1, .error = {}};
    forward->Run(absl::MakeSpan(&chunk, 1), nullptr);
    EXPECT_TRUE(chunk.error.ok()) << chunk.error;
    const auto logits = forward->Logits(0);
    return {logits.begin(), logits.end()};
  }

  std::unique_ptr<Model> model;
  ThreadPool threads;
  std::unique_ptr<kv::BlockPool> pool;
  std::unique_ptr<Forward> forward;
};

std::vector<int32_t> Tokens(int n, int seed = 7) {
  std::vector<int32_t> tokens(n);
  for (int i = 0; i < n; ++i) tokens[i] = 3 + (i * 37 + seed * 11) % 250;
  return tokens;
}

// K and V of one position in all layers, as they travel.
std::vector<std::byte> KvOf(const kv::SequenceCache& cache, int layer, int position) {
  std::vector<std::byte> bytes(cache.layout().PositionBytes());
  cache.CopyOut(layer, position, 1, absl::MakeSpan(bytes));
  return bytes;
}

TEST(Forward, ChunksAndBatchesDoNotChangeBits) {
  for (auto type : testing::kAllTypes) {
    Rig rig(testing::TinyModelOf(type));
    const auto prompt = Tokens(530);
    auto whole = rig.Cache();
    const std::vector<float> expected = rig.Run(*whole, prompt);
    for (int step : {1, 7, 64, 511}) {
      auto cache = rig.Cache();
      std::vector<float> logits;
      for (size_t at = 0; at < prompt.size(); at += step)
        logits = rig.Run(*cache, absl::MakeConstSpan(prompt).subspan(at, step));
      EXPECT_EQ(std::memcmp(expected.data(), logits.data(), expected.size() * sizeof(float)), 0)
          << "chunks of " << step << ", weights " << std::string(model_file::TensorTypeName(type));
    }
  }
}

TEST(Forward, OneAndThreeThreadsGiveTheSameBits) {
  Rig one({}, kv::KvType::kF32, 1), three({}, kv::KvType::kF32, 3);
  auto a = one.Cache(), b = three.Cache();
  EXPECT_EQ(one.Run(*a, Tokens(100)), three.Run(*b, Tokens(100)));
}

TEST(Forward, CountsWhatItDoes) {
  Rig rig;
  auto a = rig.Cache(), b = rig.Cache();
  const auto prompt = Tokens(3), other = Tokens(5, 2);
  Chunk chunks[] = {{.cache = a.get(), .tokens = prompt, .first_position = 0, .logits_wanted = 1, .error = {}},
                    {.cache = b.get(), .tokens = other, .first_position = 0, .logits_wanted = 0, .error = {}}};
  std::vector<int> layers;
  rig.forward->Run(absl::MakeSpan(chunks), [&](int layer) { layers.push_back(layer); });
  EXPECT_EQ(layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(chunks[0].computed, 3u);
  EXPECT_EQ(chunks[0].appended, 3u);
  EXPECT_EQ(chunks[0].positions_read, 3u);
  EXPECT_EQ(chunks[0].attention_pairs, 1u + 2 + 3);
  EXPECT_EQ(chunks[1].attention_pairs, 15u);
  EXPECT_EQ(a->kv_ready(), 3);
  EXPECT_EQ(b->kv_ready(), 5);

  Chunk next{.cache = a.get(),
             .tokens = absl::MakeConstSpan(other).subspan(0, 1),
             .first_position = 3,
             .logits_wanted = 1,
             .error = {}};
  rig.forward->Run(absl::MakeSpan(&next, 1), nullptr);
  EXPECT_EQ(next.computed, 1u);
  EXPECT_EQ(next.positions_read, 4u);
  EXPECT_EQ(next.attention_pairs, 4u);
}

TEST(Cache, LaterTokensChangeNothingAtEarlierPositions) {
  Rig rig;
  auto cache = rig.Cache();
  const auto prompt = Tokens(90);
  rig.Run(*cache, absl::MakeConstSpan(prompt).subspan(0, 70));
  std::vector<std::vector<std::byte>> before;
  for (int layer = 0; layer < 2; ++layer)
    for (int p = 0; p < 70; ++p) before.push_back(KvOf(*cache, layer, p));
  rig.Run(*cache, absl::MakeConstSpan(prompt).subspan(70, 20));
  for (int layer = 0; layer < 2; ++layer)
    for (int p = 0; p < 70; ++p) EXPECT_EQ(before[layer * 70 + p], KvOf(*cache, layer, p)) << layer << " " << p;
}

TEST(Cache, TheSameTokenAtTwoPositionsHasOtherKeysAndLaterOtherValues) {
  Rig rig({.layers = 3});
  auto cache = rig.Cache();
  const std::vector<int32_t> prompt = {40, 41, 40, 42};
  rig.Run(*cache, prompt);
  const size_t half = cache->layout().PositionBytes() / 2;
  for (int layer = 0; layer < 3; ++layer) {
    const auto first = KvOf(*cache, layer, 0), again = KvOf(*cache, layer, 2);
    EXPECT_NE(std::memcmp(first.data(), again.data(), half), 0) << "keys of layer " << layer;
    const int values = std::memcmp(first.data() + half, again.data() + half, half);
    if (layer == 0)
      EXPECT_EQ(values, 0) << "in the first layer a value depends on its token alone";
    else
      EXPECT_NE(values, 0) << "values of layer " << layer;
  }
}

TEST(Cache, HoldsKeysAndValuesAndNothingElse) {
  const kv::KvLayout layout{.layers = 30, .kv_heads = 3, .head_dim = 64, .type = kv::KvType::kF16};
  EXPECT_EQ(layout.PositionBytes() * layout.layers, 23040u)
      << "2 * layers * KV heads * head dim * 2 bytes: no room for Q";
  EXPECT_EQ(layout.BlockBytes(), 64u * 23040u);
}

// A weight that overflows makes the keys of every position non-finite in every type: that sequence ends, others do not
// notice.
TEST(Forward, NonFiniteKeysAreReportedWithLayerAndPosition) {
  testing::GgufWriter writer = testing::TinyModel({.head_dim = 32});
  const std::vector<float> norm(64, 3e38f);
  writer.DropTensor("blk.1.attn_norm.weight");
  writer.AddTensor("blk.1.attn_norm.weight", model_file::TensorType::kF32, {64},
                   std::string(reinterpret_cast<const char*>(norm.data()), norm.size() * 4));
  const testing::MemoryFile memory(writer.Bytes());
  auto file = model_file::ModelFile::Open(memory.path());
  ASSERT_TRUE(file.ok()) << file.status();
  auto model = Model::Load(**file, kernels::MatmulBackend::kNative, kernels::BestIsa());
  ASSERT_TRUE(model.ok()) << model.status();
  ThreadPool threads(2);
  auto forward = *Forward::Create(model->get(), &threads, 16, 4, 256);
  for (const kv::KvType type : kv::kAllKvTypes) {
    auto pool = *kv::BlockPool::Create({2, 2, 32, type}, 8);
    auto cache = *kv::SequenceCache::Reserve(pool.get(), 10);
    const auto prompt = Tokens(4);
    Chunk chunk{.cache = cache.get(), .tokens = prompt, .first_position = 0, .logits_wanted = 1, .error = {}};
    forward->Run(absl::MakeSpan(&chunk, 1), nullptr);
    EXPECT_EQ(chunk.error.code(), absl::StatusCode::kInternal);
    EXPECT_NE(chunk.error.message().find("layer 1 at position 0"), std::string::npos) << chunk.error;
    EXPECT_EQ(cache->kv_ready(), 0) << "nothing is published";
  }
}

}  // namespace
}  // namespace kvrelay::model
