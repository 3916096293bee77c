// Workers that die or hang while a stream runs. The client must see the stream of an undisturbed run, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"

namespace kvrelay::e2e {
namespace {

constexpr uint32_t kFaultTokens = 96;

// Sampled, with everything in play that a re-planned request must rebuild.
v1::GenerateRequest SampledRequest() {
  v1::GenerateRequest request = TextRequest("The old lighthouse keeper opened the door and", kFaultTokens);
  request.mutable_sampling()->set_temperature(0.9f);
  request.mutable_sampling()->set_top_p(0.95f);
  request.mutable_sampling()->set_seed(11);
  request.mutable_sampling()->set_repetition_penalty(1.2f);
  request.mutable_sampling()->set_presence_penalty(0.6f);
  request.mutable_sampling()->set_frequency_penalty(0.4f);
  (*request.mutable_sampling()->mutable_logit_bias())[30] = -5;
  request.set_min_tokens(kFaultTokens);
  request.add_stop("no text of this kind");
  request.set_logprobs(3);
  request.set_execution(v1::EXECUTION_SPLIT);
  return request;
}

// Sends `signal` to the decode worker that serves the stream, once, when `token` tokens are there.
AfterEvent SignalDecodeWorkerAt(Cluster& cluster, size_t token, int signal, std::string* struck) {
  return [&cluster, token, signal, struck](const Stream& stream) {
    if (!struck->empty() || stream.tokens.size() != token) return;
    *struck = stream.started.placement().decode_instance();
    cluster.process(*struck).Signal(signal);
  };
}

// The router keeps the last report of a dead worker; those that live must have nothing left.
bool WaitUntilTheLivingAreIdle(Cluster& cluster) {
  return cluster.WaitForWorkers([](const v1::WorkerStatus& worker) {
    return !worker.ready() || (worker.kv_blocks_referenced() == 0 && worker.active_sessions() == 0);
  });
}

TEST(DecodeWorkerKilled, TheStreamGoesOnElsewhereWithTheSameBits) {
  Cluster cluster;
  ASSERT_EQ(cluster.StartAll(1, 4), absl::OkStatus());
  const Stream undisturbed = Generate(cluster.stub(), SampledRequest());
  ExpectSound(undisturbed);
  ASSERT_EQ(undisturbed.tokens.size(), kFaultTokens);
  for (const size_t token : {1, 17, 80}) {
    SCOPED_TRACE(token);
    std::string struck;
    const Stream stream =
        Generate(cluster.stub(), SampledRequest(), SignalDecodeWorkerAt(cluster, token, SIGKILL, &struck));
    ASSERT_FALSE(struck.empty());
    ExpectSound(stream);
    ExpectSameBits(stream, undisturbed);
    EXPECT_GE(stream.finished.replans(), 1u);
  }
  EXPECT_TRUE(WaitUntilTheLivingAreIdle(cluster)) << cluster.Describe();
}

TEST(DecodeWorkerKilled, TheTextGoesOnInItsGrammar) {
  Cluster cluster;
  ASSERT_EQ(cluster.StartAll(1, 3), absl::OkStatus());
  v1::GenerateRequest request = SampledRequest();
  request.clear_min_tokens();
  request.set_json_schema(R"({"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,8}$"},
                              "minItems": 30, "maxItems": 30})");
  request.set_max_tokens(400);
  const Stream undisturbed = Generate(cluster.stub(), request);
  ExpectSound(undisturbed);
  const auto json = nlohmann::json::parse(undisturbed.text, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_array()) << undisturbed.text;
  EXPECT_EQ(json.size(), 30u);
  for (const size_t token : {3, 40}) {
    SCOPED_TRACE(token);
    std::string struck;
    const Stream stream = Generate(cluster.stub(), request, SignalDecodeWorkerAt(cluster, token, SIGKILL, &struck));
    ASSERT_FALSE(struck.empty());
    ExpectSound(stream);
    ExpectSameBits(stream, undisturbed);
    EXPECT_GE(stream.finished.replans(), 1u);
  }
}

// A stopped process answers nothing and closes nothing: only its missing heartbeats give it away.
TEST(DecodeWorkerHangs, TheStreamGoesOnElsewhereWithTheSameBits) {
  Cluster cluster;
  ASSERT_EQ(cluster.StartAll(1, 2), absl::OkStatus());
  const Stream undisturbed = Generate(cluster.stub(), SampledRequest());
  std::string struck;
  const Stream stream = Generate(cluster.stub(), SampledRequest(), SignalDecodeWorkerAt(cluster, 20, SIGSTOP, &struck));
  ASSERT_FALSE(struck.empty());
  cluster.process(struck).Signal(SIGCONT);
  ExpectSound(stream);
  ExpectSameBits(stream, undisturbed);
  EXPECT_GE(stream.finished.replans(), 1u);
  // It comes back by itself, and what it still held is free.
  EXPECT_EQ(cluster.WaitReady(), absl::OkStatus());
  EXPECT_TRUE(cluster.WaitUntilIdle()) << cluster.Describe();
}

TEST(PrefillWorkerKilled, AnotherComputesThePrompt) {
  Cluster cluster;
  ASSERT_EQ(cluster.StartAll(2, 1), absl::OkStatus());
  // Long enough that the prompt is still being computed when the first events are there.
  const v1::GenerateRequest request = LongPromptRequest(120, 8);
  const Stream undisturbed = Generate(cluster.stub(), request);
  ExpectSound(undisturbed);
  std::string struck;
  const Stream stream = Generate(cluster.stub(), request, [&](const Stream& so_far) {
    if (!struck.empty()) return;
    struck = so_far.started.placement().prefill_instance();
    cluster.process(struck).Signal(SIGKILL);
  });
  ASSERT_FALSE(struck.empty());
  ExpectSound(stream);
  ExpectSameBits(stream, undisturbed);
  EXPECT_GE(stream.finished.attempts(), 2u);
  EXPECT_TRUE(WaitUntilTheLivingAreIdle(cluster)) << cluster.Describe();
}

}  // namespace
}  // namespace kvrelay::e2e
