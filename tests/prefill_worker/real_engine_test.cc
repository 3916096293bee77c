// The whole worker path on the real engine and a tiny model: split, computed by the decode worker, and without a cache
// give the same tokens and log-probabilities, with every type of KV cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/model/model.h"
#include "common/model_file/model_file.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"
#include "tests/worker/test_client.h"
#include "tests/worker/test_worker.h"

namespace kvrelay::prefill_worker {
namespace {

using kvrelay::testing::DecodeClient;
using kvrelay::testing::MakePrefill;
using kvrelay::testing::MakeSpec;
using kvrelay::testing::PrefillClient;
using kvrelay::testing::TestDecodeWorker;
using kvrelay::testing::TestPrefillWorker;

class RealEngineTest : public ::testing::TestWithParam<kv::KvType> {
 protected:
  RealEngineTest() {
    kvrelay::testing::MemoryFile file(kvrelay::testing::TinyModelBytes({.layers = 3, .head_dim = 32}));
    const auto gguf = model_file::ModelFile::Open(file.path());
    EXPECT_TRUE(gguf.ok()) << gguf.status();
    auto model = model::Model::Load(**gguf, kernels::MatmulBackend::kNative, kernels::BestIsa());
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    decode_ = std::make_unique<TestDecodeWorker>(NewEngine(), model_->config().vocabulary);
    prefill_ = std::make_unique<TestPrefillWorker>(NewEngine(), model_->config().vocabulary);
  }

  std::unique_ptr<engine::Engine> NewEngine() {
    auto engine = engine::Engine::Create(
        model_.get(),
        {.threads = 1, .cpus = {}, .kv_blocks = 32, .kv_type = GetParam(), .prefill_chunk = 100, .max_sessions = 8},
        Clock::Real());
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  static worker::v1::GenerationSpec Spec() {
    auto spec = MakeSpec(150, 12);
    for (uint32_t& id : *spec.mutable_token_ids()) id = 3 + id % 250;
    spec.set_temperature(0.8f);
    spec.set_seed(7);
    spec.set_logprobs(5);
    spec.set_ignore_eos(true);
    spec.set_trace(true);
    return spec;
  }

  // The selected tokens of a stream, without what differs by design: the accounting and the run.
  static std::vector<std::string> Tokens(DecodeClient& stream, worker::v1::Ended* ended) {
    std::vector<std::string> tokens;
    for (auto& event : stream.Rest()) {
      if (event.has_ended()) *ended = event.ended();
      if (!event.has_selected()) continue;
      event.mutable_selected()->clear_positions();
      event.mutable_selected()->clear_run();
      tokens.push_back(event.selected().SerializeAsString());
    }
    EXPECT_TRUE(stream.Finish().ok());
    return tokens;
  }

  bool Free(TestDecodeWorker& worker) { return worker.context().engine->Load().kv_blocks_referenced == 0; }

  std::unique_ptr<model::Model> model_;
  std::unique_ptr<TestDecodeWorker> decode_;
  std::unique_ptr<TestPrefillWorker> prefill_;
};

TEST_P(RealEngineTest, ThreeExecutionsOneAnswer) {
  const auto spec = Spec();
  auto alone = spec;
  alone.set_cache_salt("alone");  // reuses nothing of the local run beside it
  worker::v1::Ended local_end, no_cache_end, split_end;
  DecodeClient local(*decode_->stub), no_cache(*decode_->stub), split(*decode_->stub);
  local.Reserve('a', spec, worker::v1::SOURCE_COMPUTED);
  no_cache.Reserve('b', spec, worker::v1::SOURCE_NO_CACHE);
  split.Reserve('c', alone, worker::v1::SOURCE_RECEIVED);
  ASSERT_TRUE(split.Next()->has_reserved());
  PrefillClient job(*prefill_->stub, MakePrefill(alone, 'c', 1, decode_->address()));
  const auto first = job.Next();
  ASSERT_TRUE(first.has_value() && first->has_selected());
  const auto done = job.Next();
  ASSERT_TRUE(done.has_value() && done->has_done());
  EXPECT_TRUE(job.Finish().ok());

  const auto tokens = Tokens(local, &local_end);
  EXPECT_EQ(tokens.size(), 12);
  EXPECT_EQ(Tokens(no_cache, &no_cache_end), tokens);
  EXPECT_EQ(Tokens(split, &split_end), tokens);

  EXPECT_EQ(done->done().positions().computed(), 150);
  EXPECT_EQ(done->done().positions().shipped(), 150);
  EXPECT_EQ(done->done().bytes_shipped(), 3 * 150 * prefill_->context().engine->kv_layout().PositionBytes());
  EXPECT_EQ(split_end.positions().received(), 150);
  EXPECT_EQ(split_end.positions().computed(), 11);
  EXPECT_EQ(split_end.positions().kv_ready(), 161);
  EXPECT_EQ(local_end.positions().computed(), 161);
  EXPECT_EQ(no_cache_end.positions().kv_ready(), 0);
  EXPECT_EQ(no_cache_end.positions().computed(), 12 * 150 + 66);
  EXPECT_EQ(no_cache_end.positions().recomputed(), no_cache_end.positions().computed() - 161);
  EXPECT_TRUE(Free(*decode_));
}

TEST_P(RealEngineTest, CancelFrees) {
  {
    DecodeClient stream(*decode_->stub);
    auto spec = Spec();
    spec.set_max_tokens(1000);
    stream.Reserve('a', spec, worker::v1::SOURCE_COMPUTED);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(stream.Next().has_value());
    EXPECT_FALSE(Free(*decode_));
    stream.Cancel();
  }
  EXPECT_TRUE(decode_->calls().WaitUntilIdle(absl::Seconds(10)));
  for (int i = 0; i < 10000 && !Free(*decode_); ++i) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(Free(*decode_));
}

INSTANTIATE_TEST_SUITE_P(Types, RealEngineTest, ::testing::ValuesIn(kv::kAllKvTypes),
                         [](const auto& info) { return std::string(kv::KvTypeName(info.param)); });

}  // namespace
}  // namespace kvrelay::prefill_worker
