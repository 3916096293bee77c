// Requests that end before their time leave nothing behind (checked after each test), and health tells the truth.
#include <grpcpp/generic/generic_stub.h>
#include <signal.h>

#include "tests/e2e/requests.h"
#include "tests/e2e/shared_cluster.h"

namespace kvrelay::e2e {
namespace {

class EndingTest : public SharedClusterTest {
 protected:
  // Waits until some worker is seen with blocks of a request.
  bool WaitUntilBusy() {
    return WaitUntil([this] {
      const absl::StatusOr<v1::GetStatusResponse> status = cluster().Status();
      if (!status.ok()) return false;
      for (const v1::WorkerStatus& worker : status->workers()) {
        if (worker.kv_blocks_referenced() > 0) return true;
      }
      return false;
    });
  }

  // Longer than any test takes.
  static v1::GenerateRequest Endless() {
    v1::GenerateRequest request = TextRequest("Once upon a time", 8000);
    request.set_ignore_eos(true);
    return request;
  }
};

TEST_F(EndingTest, CancelHalfway) {
  for (const auto execution : {v1::EXECUTION_SPLIT, v1::EXECUTION_LOCAL, v1::EXECUTION_NO_CACHE}) {
    v1::GenerateRequest request = Endless();
    request.set_execution(execution);
    grpc::ClientContext context;
    const auto reader = stub().Generate(&context, request);
    v1::GenerateResponse response;
    for (int tokens = 0; tokens < 3 && reader->Read(&response);) tokens += response.has_token() ? 1 : 0;
    ASSERT_TRUE(WaitUntilBusy());
    context.TryCancel();
    while (reader->Read(&response)) continue;
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    ASSERT_TRUE(cluster().WaitUntilIdle()) << v1::Execution_Name(execution);
  }
}

TEST_F(EndingTest, CancelBeforeTheFirstToken) {
  v1::GenerateRequest request = Endless();
  for (int i = 0; i < 150; ++i) request.mutable_text()->append(" and then another thing happened to all of them");
  request.set_max_tokens(2000);  // with the long prompt still inside the context
  grpc::ClientContext context;
  const auto reader = stub().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_TRUE(response.has_started());
  context.TryCancel();
  while (reader->Read(&response)) continue;
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(EndingTest, Deadline) {
  grpc::ClientContext context;
  context.set_deadline(gpr_time_from_millis(1500, GPR_TIMESPAN));
  const auto reader = stub().Generate(&context, Endless());
  v1::GenerateResponse response;
  while (reader->Read(&response)) continue;
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(EndingTest, KilledClient) {
  const auto client = Process::Start(
      "kvrelay",
      {"generate", "--address", cluster().address(), "--max-tokens", "8000", "--ignore-eos", "Once upon a time"},
      cluster().directory() + "/client.log");
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(WaitUntilBusy()) << (*client)->Log();
  (*client)->Signal(SIGKILL);
  EXPECT_EQ((*client)->Wait().value(), -SIGKILL);
}

TEST_F(EndingTest, InterruptedClient) {
  const auto client = Process::Start(
      "kvrelay",
      {"run", "--address", cluster().address(), "--max-tokens", "8000", "--ignore-eos", "Tell me a long story."},
      cluster().directory() + "/interrupted.log");
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(WaitUntilBusy()) << (*client)->Log();
  (*client)->Signal(SIGINT);
  EXPECT_EQ((*client)->Wait().value(), 130) << (*client)->Log();
}

// Check(service) by grpc.health.v1, whose messages are one field each: string service = 1; ServingStatus status = 1.
std::string Health(const std::string& address, const std::string& service, grpc::Status* status) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const std::string bytes = service.empty() ? "" : "\x0A" + std::string(1, static_cast<char>(service.size())) + service;
  grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&response, status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status->ok()) return "";
  grpc::Slice answer;
  EXPECT_TRUE(response.DumpToSingleSlice(&answer).ok());
  return std::string(reinterpret_cast<const char*>(answer.begin()), answer.size());
}

TEST_F(EndingTest, HealthOfEveryProcess) {
  const std::string kServing = "\x08\x01";
  grpc::Status status;
  for (const char* name : {"router-1", "prefill-1", "prefill-2", "decode-1", "decode-2"}) {
    EXPECT_EQ(Health(cluster().address(name), "", &status), kServing) << name << ": " << status.error_message();
  }
  EXPECT_EQ(Health(cluster().address(), v1::GenerationService::service_full_name(), &status), kServing);
  Health(cluster().address(), "no.such.Service", &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace kvrelay::e2e
