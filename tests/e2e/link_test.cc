// Links between workers and router, and between prefill and decode, that fail without anybody's end: half-open ones are
// found by keepalive or missing heartbeats, slow ones are left alone. The client sees an undisturbed stream.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"

namespace kvrelay::e2e {
namespace {

// A prompt of a few hundred positions, whose KV is under way when the first events are there.
v1::GenerateRequest SampledLongPrompt() {
  v1::GenerateRequest request = LongPromptRequest(24, 48);
  request.mutable_sampling()->set_temperature(0.8f);
  request.mutable_sampling()->set_seed(3);
  return request;
}

class LinkTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = new Cluster(Cluster::Links::kProxies);
    ASSERT_EQ(cluster_->StartAll(2, 2), absl::OkStatus());
    undisturbed_ = new Stream(Generate(cluster_->stub(), SampledLongPrompt()));
    ExpectSound(*undisturbed_);
  }
  static void TearDownTestSuite() {
    delete undisturbed_;
    delete cluster_;
  }
  // After each test: all is back, and nothing is held.
  void TearDown() override {
    EXPECT_EQ(cluster_->WaitReady(), absl::OkStatus());
    EXPECT_TRUE(cluster_->WaitUntilIdle()) << cluster_->Describe();
  }

  static Cluster* cluster_;
  static Stream* undisturbed_;
};
Cluster* LinkTest::cluster_ = nullptr;
Stream* LinkTest::undisturbed_ = nullptr;

TEST_F(LinkTest, HalfOpenBetweenRouterAndDecode) {
  std::string struck;
  const Stream stream = Generate(cluster_->stub(), SampledLongPrompt(), [&](const Stream& so_far) {
    if (!struck.empty() || so_far.tokens.size() != 10) return;
    struck = so_far.started.placement().decode_instance();
    cluster_->link(struck).Set(Link::kHalfOpen);
  });
  ASSERT_FALSE(struck.empty());
  cluster_->link(struck).Set(Link::kWhole);
  ExpectSound(stream);
  ExpectSameBits(stream, *undisturbed_);
  EXPECT_GE(stream.finished.replans(), 1u);
}

TEST_F(LinkTest, HalfOpenBetweenPrefillAndDecode) {
  std::string struck;
  const Stream stream = Generate(cluster_->stub(), SampledLongPrompt(), [&](const Stream& so_far) {
    if (!struck.empty()) return;
    struck = so_far.started.placement().decode_instance();
    cluster_->kv_link(struck).Set(Link::kHalfOpen);
  });
  ASSERT_FALSE(struck.empty());
  cluster_->kv_link(struck).Set(Link::kWhole);
  ExpectSound(stream);
  ExpectSameBits(stream, *undisturbed_);
  EXPECT_GE(stream.finished.attempts(), 2u);
}

// The KV of the prompt takes about six seconds: longer than a heartbeat may stay away.
TEST_F(LinkTest, SlowEverywhereIsNoFault) {
  const double kv_bytes = static_cast<double>(undisturbed_->finished.kv_bytes_shipped());
  const auto set_all = [&](Link link) {
    for (const char* name : {"prefill-1", "prefill-2", "decode-1", "decode-2"}) {
      cluster_->link(name).Set(link, 50e3);
      cluster_->kv_link(name).Set(link, kv_bytes / 6);
    }
  };
  set_all(Link::kSlow);
  const Stream stream = Generate(cluster_->stub(), SampledLongPrompt());
  set_all(Link::kWhole);
  ExpectSound(stream);
  ExpectSameBits(stream, *undisturbed_);
  EXPECT_EQ(stream.finished.attempts(), 1u);
  EXPECT_EQ(stream.finished.replans(), 0u);
}

}  // namespace
}  // namespace kvrelay::e2e
