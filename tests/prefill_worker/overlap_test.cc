// The transfer hides behind the computation: with the real model, most of a long prompt's KV has left while the prompt
// is still being computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/test_model.h"
#include "tests/worker/test_client.h"
#include "tests/worker/test_worker.h"

namespace kvrelay::prefill_worker {
namespace {

using kvrelay::testing::DecodeClient;
using kvrelay::testing::PrefillClient;

constexpr int kPromptLength = 2000;

std::unique_ptr<engine::Engine> NewEngine(const model::Model& model) {
  auto engine =
      engine::Engine::Create(&model, {.threads = 1, .cpus = {}, .kv_blocks = 40, .max_sessions = 2}, Clock::Real());
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

TEST(OverlapTest, ALongPromptIsShippedWhileItIsComputed) {
  const auto model = kvrelay::testing::LoadTestModel(kernels::MatmulBackend::kNative, kernels::BestIsa());
  const int vocabulary = model->config().vocabulary;
  kvrelay::testing::TestDecodeWorker decode(NewEngine(*model), vocabulary);
  kvrelay::testing::TestPrefillWorker prefill(NewEngine(*model), vocabulary);
  auto spec = kvrelay::testing::MakeSpec(kPromptLength, 2);
  spec.set_ignore_eos(true);

  DecodeClient stream(*decode.stub);
  stream.Reserve('a', spec, worker::v1::SOURCE_RECEIVED);
  ASSERT_TRUE(stream.Next()->has_reserved());
  PrefillClient job(*prefill.stub, kvrelay::testing::MakePrefill(spec, 'a', 1, decode.address()));
  std::optional<worker::v1::PrefillDone> done;
  while (auto event = job.Next()) {
    if (event->has_done()) done = event->done();
  }
  ASSERT_TRUE(done.has_value()) << job.Finish().error_message();
  EXPECT_EQ(done->bytes_shipped(),
            kPromptLength * prefill.context().engine->kv_layout().PositionBytes() * model->config().layers);
  // Frames of a chunk start before its layer with index 3.
  EXPECT_LE(done->first_frame_layer(), 2);
  EXPECT_GE(done->bytes_before_last_layer(), done->bytes_shipped() * 9 / 10);
  RecordProperty("bytes_hidden_percent",
                 static_cast<int>(100 * done->bytes_before_last_layer() / done->bytes_shipped()));
}

}  // namespace
}  // namespace kvrelay::prefill_worker
