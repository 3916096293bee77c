// Services that are incomplete or wrongly put together, and programs that cannot start.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::e2e {
namespace {

using ::testing::HasSubstr;

TEST(WithoutPrefillWorker, ForcedSplitFailsAndTheDefaultGoesLocalWithAReason) {
  Cluster cluster;
  ASSERT_EQ(cluster.StartAll(0, 1), absl::OkStatus());
  v1::GenerateRequest request = TextRequest("The capital of France is", 4);
  request.set_execution(v1::EXECUTION_SPLIT);
  const Stream forced = Generate(cluster.stub(), request);
  EXPECT_EQ(forced.status.error_code(), grpc::StatusCode::UNAVAILABLE) << forced.status.error_message();
  EXPECT_THAT(forced.status.error_message(), HasSubstr("prefill"));
  request.set_execution(v1::EXECUTION_UNSPECIFIED);
  const Stream chosen = Generate(cluster.stub(), request);
  ExpectSound(chosen);
  EXPECT_EQ(chosen.started.placement().execution(), v1::EXECUTION_LOCAL);
  EXPECT_THAT(chosen.started.placement().reason(), HasSubstr("prefill"));
  EXPECT_TRUE(cluster.WaitUntilIdle());
}

TEST(WithDeadPrefillWorker, TheRouterNoticesAndGoesLocal) {
  Cluster cluster;
  ASSERT_EQ(cluster.StartAll(1, 1), absl::OkStatus());
  cluster.process("prefill-1").Signal(SIGKILL);
  ASSERT_TRUE(cluster.WaitForWorkers(
      [](const v1::WorkerStatus& worker) { return worker.ready() == (worker.role() == v1::WORKER_ROLE_DECODE); }));
  const absl::StatusOr<v1::GetStatusResponse> status = cluster.Status();
  ASSERT_TRUE(status.ok());
  for (const v1::WorkerStatus& worker : status->workers()) EXPECT_EQ(worker.ready(), worker.problem().empty());
  const Stream chosen = Generate(cluster.stub(), TextRequest("The capital of France is", 4));
  ExpectSound(chosen);
  EXPECT_EQ(chosen.started.placement().execution(), v1::EXECUTION_LOCAL);
}

TEST(TwoModels, AreNeverMixed) {
  Cluster cluster;
  const std::string other = cluster.directory() + "/other.gguf";
  testing::WriteTinyModel({}, other);
  ASSERT_EQ(cluster.StartWorker("decode", "decode-1", {"--model", other}), absl::OkStatus());
  ASSERT_EQ(cluster.StartRouter(), absl::OkStatus());
  ASSERT_TRUE(cluster.WaitForWorkers([](const v1::WorkerStatus& worker) {
    return !worker.ready() && worker.problem().find("model") != std::string::npos;
  })) << cluster.Describe();
  const Stream stream = Generate(cluster.stub(), TextRequest("The capital of France is", 4));
  EXPECT_EQ(stream.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << stream.status.error_message();
}

// Runs a program that cannot start, and expects it to end with an error code and to say `message`.
void ExpectRefusal(const std::string& directory, const std::string& role, const std::vector<std::string>& arguments,
                   const std::string& message) {
  SCOPED_TRACE(role);
  const auto process = Process::Start("kvrelay-" + role, arguments, directory + "/" + role + ".refused");
  ASSERT_TRUE(process.ok()) << process.status();
  const absl::StatusOr<int> exit = (*process)->Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_GT(*exit, 0) << (*process)->Log();
  EXPECT_THAT((*process)->Log(), HasSubstr(message));
  std::filesystem::remove(directory + "/" + role + ".refused");
}

TEST(Startup, PortInUse) {
  Cluster cluster;
  const std::string small = cluster.directory() + "/small.gguf";
  testing::WriteTinyModel({}, small);
  ASSERT_EQ(cluster.StartWorker("decode", "decode-1", {"--model", small}), absl::OkStatus());
  const std::string address = cluster.address("decode-1");
  const std::vector<std::string> worker = {"--model", small, "--listen", address, "--kv-pool-mib", "16"};
  ExpectRefusal(cluster.directory(), "prefill", worker, address);
  ExpectRefusal(cluster.directory(), "decode", worker, address);
  ExpectRefusal(cluster.directory(), "router", {"--model", small, "--listen", address, "--decode", address}, address);
  EXPECT_TRUE(cluster.process("decode-1").Running());
}

TEST(Startup, ModelFileMissingCutOrForeign) {
  Cluster cluster;
  const std::string missing = cluster.directory() + "/missing.gguf";
  const std::string cut = cluster.directory() + "/cut.gguf";
  const std::string foreign = cluster.directory() + "/foreign.gguf";
  const std::string whole = testing::TinyModelBytes({});
  std::ofstream(cut, std::ios::binary) << whole.substr(0, whole.size() / 2);
  std::ofstream(foreign) << "this is no model";
  for (const std::string& path : {missing, cut, foreign}) {
    SCOPED_TRACE(path);
    ExpectRefusal(cluster.directory(), "prefill", {"--model", path, "--listen", "127.0.0.1:0"}, path);
    ExpectRefusal(cluster.directory(), "decode", {"--model", path, "--listen", "127.0.0.1:0"}, path);
    ExpectRefusal(cluster.directory(), "router",
                  {"--model", path, "--listen", "127.0.0.1:0", "--decode", "127.0.0.1:1"}, path);
  }
}

TEST(Startup, StopIsOrderly) {
  Cluster cluster;
  const std::string small = cluster.directory() + "/small.gguf";
  testing::WriteTinyModel({}, small);
  ASSERT_EQ(cluster.StartWorker("prefill", "prefill-1", {"--model", small}), absl::OkStatus());
  ASSERT_EQ(cluster.StartWorker("decode", "decode-1", {"--model", small}), absl::OkStatus());
  EXPECT_EQ(cluster.Stop(), absl::OkStatus()) << cluster.Logs();
}

TEST(Startup, KvPoolThatCannotBeHad) {
  Cluster cluster;
  const std::string small = cluster.directory() + "/small.gguf";
  testing::WriteTinyModel({}, small);
  for (const char* role : {"prefill", "decode"}) {
    ExpectRefusal(cluster.directory(), role, {"--model", small, "--listen", "127.0.0.1:0", "--kv-pool-mib", "1000000"},
                  "1000000 MiB");
  }
}

}  // namespace
}  // namespace kvrelay::e2e
