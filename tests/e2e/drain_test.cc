// Workers that are told to stop while streams run: the streams move, nothing is computed again, and the worker's
// process ends well before its grace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"

namespace kvrelay::e2e {
namespace {

constexpr uint32_t kDrainTokens = 160;

// Prompts of several blocks; greedy, sampled, with everything in play that a move must carry or rebuild.
v1::GenerateRequest Request(int number) {
  std::string text;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&text, "Line ", i, " of report ", number, ". ");
  v1::GenerateRequest request = TextRequest(text, kDrainTokens);
  if (number == 1) {
    request.set_regex("([a-z]{1,8} ){200}");  // a token for each at least
  } else {
    request.set_min_tokens(kDrainTokens);
  }
  request.set_logprobs(2);
  request.set_trace(number % 2 == 1);
  request.add_stop("no text of this kind");
  if (number % 2 == 1) {
    request.mutable_sampling()->set_temperature(0.8f);
    request.mutable_sampling()->set_seed(5);
  }
  if (number > 0) {
    request.mutable_sampling()->set_repetition_penalty(1.2f);
    request.mutable_sampling()->set_presence_penalty(0.6f);
    request.mutable_sampling()->set_frequency_penalty(0.4f);
    (*request.mutable_sampling()->mutable_logit_bias())[30] = -5;
  }
  request.set_execution(number == 2 ? v1::EXECUTION_LOCAL : v1::EXECUTION_SPLIT);
  return request;
}

TEST(DrainingDecodeWorker, ItsStreamsMoveWithTheSameBitsAndNothingIsComputedAgain) {
  constexpr int kStreams = 3;
  Cluster cluster;
  ASSERT_EQ(cluster.StartWorker("prefill", "prefill-1"), absl::OkStatus());
  ASSERT_EQ(cluster.StartWorker("decode", "decode-1"), absl::OkStatus());
  ASSERT_EQ(cluster.StartWorker("decode", "decode-2"), absl::OkStatus());
  ASSERT_EQ(cluster.StartRouter(), absl::OkStatus());
  ASSERT_EQ(cluster.WaitReady(), absl::OkStatus());
  std::vector<Stream> undisturbed;
  for (int i = 0; i < kStreams; ++i) {
    undisturbed.push_back(Generate(cluster.stub(), Request(i)));
    ExpectSound(undisturbed.back());
    ASSERT_EQ(undisturbed.back().tokens.size(), kDrainTokens);
  }

  // decode-1 is told to stop when all streams are under way.
  std::vector<Stream> moved(kStreams);
  std::atomic<int> under_way = 0;
  std::atomic<bool> struck = false;
  std::vector<std::thread> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back([&, i] {
      moved[i] = Generate(cluster.stub(), Request(i), [&](const Stream& stream) {
        if (stream.tokens.size() == 20) ++under_way;
        if (stream.tokens.size() >= 20 && under_way == kStreams && !struck.exchange(true))
          cluster.process("decode-1").Signal(SIGTERM);
      });
    });
  }
  for (std::thread& client : clients) client.join();
  int moves = 0;
  for (int i = 0; i < kStreams; ++i) {
    SCOPED_TRACE(i);
    ExpectSound(moved[i]);
    ExpectSameBits(moved[i], undisturbed[i]);
    EXPECT_EQ(moved[i].finished.replans(), 0u);
    EXPECT_EQ(moved[i].positions.back().recomputed(), 0u);
    moves += static_cast<int>(moved[i].finished.moves());
  }
  EXPECT_GE(moves, 1) << "decode-1 had streams";
  const absl::StatusOr<int> exit_code = cluster.process("decode-1").Wait();
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0);
  EXPECT_THAT(cluster.process("decode-1").Log(), ::testing::HasSubstr("idle=true"));
  EXPECT_TRUE(cluster.WaitForWorkers([](const v1::WorkerStatus& worker) {
    return !worker.ready() || (worker.kv_blocks_referenced() == 0 && worker.active_sessions() == 0);
  })) << cluster.Describe();
}

}  // namespace
}  // namespace kvrelay::e2e
