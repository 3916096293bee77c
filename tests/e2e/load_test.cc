// More requests than fit, and many one after another: refusals are clear, nothing hangs, nothing stays behind.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "kvrelay/bench/v1/bench.pb.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"
#include "tests/e2e/shared_cluster.h"
#include "tests/e2e/soak.h"

namespace kvrelay::e2e {
namespace {

using ::testing::HasSubstr;

TEST(KvPoolFull, RefusesClearlyAndFreesAll) {
  Cluster cluster;  // 11 blocks a worker: room for five of these requests
  ASSERT_EQ(cluster.StartWorker("prefill", "prefill-1", {"--kv-pool-mib", "16"}), absl::OkStatus());
  ASSERT_EQ(cluster.StartWorker("decode", "decode-1", {"--kv-pool-mib", "16"}), absl::OkStatus());
  // Four may wait for room; what finds them there is refused at once.
  setenv("KVRELAY_QUEUE_REQUESTS", "4", 1);
  const absl::Status router = cluster.StartRouter();
  unsetenv("KVRELAY_QUEUE_REQUESTS");
  ASSERT_EQ(router, absl::OkStatus());
  ASSERT_EQ(cluster.WaitReady(), absl::OkStatus());
  v1::GenerateRequest request = TextRequest("Once upon a time", 100);
  request.set_ignore_eos(true);
  std::vector<Stream> streams(24);
  std::vector<std::thread> threads;
  for (Stream& stream : streams) {
    threads.emplace_back([&cluster, &request, &stream] { stream = Generate(cluster.stub(), request); });
  }
  for (std::thread& thread : threads) thread.join();
  int served = 0, refused = 0;
  for (const Stream& stream : streams) {
    if (stream.status.ok()) {
      ++served;
      ExpectSound(stream);
    } else {
      ++refused;
      EXPECT_EQ(stream.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << stream.status.error_message();
      EXPECT_THAT(stream.status.error_message(), HasSubstr("queue is full"));
    }
  }
  EXPECT_GT(served, 0);
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(cluster.WaitUntilIdle()) << cluster.Describe();
}

class BenchTest : public SharedClusterTest {};

TEST_F(BenchTest, PartsOfTtftOfSplitRequestsAddUp) {
  const auto client = Process::Start(
      "kvrelay",
      {"bench", "--json", "--address", cluster().address(), "--rate", "20", "--requests", "8", "--prompt-tokens", "70",
       "--output-tokens", "6", "--output-sigma", "0.5", "--execution", "split", "--slo-tpot-ms", "1e6"},
      cluster().directory() + "/bench.json");
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->Wait().value(), 0);
  bench::v1::Report report;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage((*client)->Log(), &report).ok()) << (*client)->Log();
  EXPECT_EQ(report.completed(), 8u);
  EXPECT_EQ(report.good_share(), 1);
  EXPECT_EQ(report.prompt_tokens().mean(), 70);
  EXPECT_EQ(report.itl_ms().count(), 8 * report.output_tokens().mean() - 8);
  const bench::v1::Phases& phases = report.ttft_phases();
  double sum = 0;
  for (const bench::v1::Distribution* part : {&phases.late_ms(), &phases.router_queue_ms(), &phases.prefill_queue_ms(),
                                              &phases.prefill_ms(), &phases.between_ms(), &phases.outside_ms()}) {
    EXPECT_EQ(part->count(), 8u);
    EXPECT_GE(part->p50(), 0);
    sum += part->mean();
  }
  EXPECT_NEAR(sum, report.ttft_ms().mean(), 1e-6);
  EXPECT_GT(phases.prefill_ms().mean(), 0);
  EXPECT_GT(phases.transfer_not_hidden_ms().max(), 0);
}

// A short run of ./dev soak.
TEST(Soak, MemoryAndBlocksStayFlat) {
  const auto report = RunSoak({.finished = 100, .cancelled = 100, .phases = 2, .warm_up = 1}, [](const SoakSample&) {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->requests_ended_well);
  EXPECT_TRUE(report->blocks_flat);
  EXPECT_TRUE(report->memory_flat) << "grew by " << report->largest_growth_mib << " MiB";
}

}  // namespace
}  // namespace kvrelay::e2e
