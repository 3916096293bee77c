#include "common/rpc/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "common/rpc/channel.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"

namespace kvrelay::rpc {
namespace {

using ::testing::HasSubstr;
using worker::v1::WatchStatusRequest;
using worker::v1::WatchStatusResponse;
using worker::v1::WorkerService;

// Streams nothing until the call is cancelled.
class SilentService final : public WorkerService::CallbackService {
 public:
  grpc::ServerWriteReactor<WatchStatusResponse>* WatchStatus(grpc::CallbackServerContext*,
                                                             const WatchStatusRequest*) override {
    class Reactor : public grpc::ServerWriteReactor<WatchStatusResponse> {
     public:
      explicit Reactor(std::atomic<int>* live) : live_(live) { ++*live_; }
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override {
        --*live_;
        delete this;
      }
      std::atomic<int>* live_;
    };
    return new Reactor(&live);
  }
  std::atomic<int> live = 0;
};

// The bytes of a unary answer: enough for health, whose messages are one field each.
grpc::Status CallRaw(const std::string& address, const std::string& method, std::string request,
                     std::string* response) {
  grpc::GenericStub stub(NewChannel(address));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::Slice slice(request);
  grpc::ByteBuffer in(&slice, 1), out;
  auto call = stub.PrepareUnaryCall(&context, method, in, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&out, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (status.ok() && out.Dump(&slices).ok()) {
    for (const grpc::Slice& s : slices) response->append(reinterpret_cast<const char*>(s.begin()), s.size());
  }
  return status;
}

std::string HealthRequest(const std::string& service) {
  return service.empty() ? "" : "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
}

class ServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Server> Start(const std::string& listen = "127.0.0.1:0") {
    auto server = Server::Start({.listen = listen}, {{WorkerService::service_full_name(), &service_}});
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }
  SilentService service_;
};

TEST_F(ServerTest, FreePortIsReported) {
  auto server = Start();
  const auto address = ParseHostPort(server->address());
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "127.0.0.1");
  EXPECT_GT(address->port, 0);
}

TEST_F(ServerTest, PortInUseIsAnErrorThatNamesIt) {
  auto first = Start();
  SilentService other;
  const auto second = Server::Start({.listen = first->address()}, {{WorkerService::service_full_name(), &other}});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first->address()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
  EXPECT_EQ(CheckCanListen(first->address()), second.status());
  EXPECT_TRUE(CheckCanListen("127.0.0.1:0").ok());
}

TEST_F(ServerTest, BadAddresses) {
  for (const char* listen : {"", "127.0.0.1", ":50051", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x", "::1:5"}) {
    const auto server = Server::Start({.listen = listen}, {});
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << listen;
  }
  EXPECT_EQ(JoinHostPort(*ParseHostPort("[::1]:5")), "[::1]:5");
  for (const char* local : {"127.0.0.1:5", "127.8.0.9:5", "localhost:5", "[::1]:5"}) {
    EXPECT_TRUE(IsLoopback(*ParseHostPort(local))) << local;
  }
  for (const char* other : {"0.0.0.0:5", "10.0.0.1:5", "127.example:5", "127.0.0.1.example:5", "[::]:5", "127.1:5"}) {
    EXPECT_FALSE(IsLoopback(*ParseHostPort(other))) << other;
  }
  EXPECT_EQ(Server::Start({.listen = "192.0.2.1:0"}, {}).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ServerTest, HealthAnswersPerService) {
  auto server = Start();
  const std::string method = "/grpc.health.v1.Health/Check";
  std::string response;
  ASSERT_TRUE(CallRaw(server->address(), method, HealthRequest(WorkerService::service_full_name()), &response).ok());
  EXPECT_EQ(response, "\x08\x01");  // SERVING
  response.clear();
  ASSERT_TRUE(CallRaw(server->address(), method, HealthRequest(""), &response).ok());
  EXPECT_EQ(response, "\x08\x01");
  EXPECT_EQ(CallRaw(server->address(), method, HealthRequest("nobody"), &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  server->SetNotServing();
  response.clear();
  ASSERT_TRUE(CallRaw(server->address(), method, HealthRequest(WorkerService::service_full_name()), &response).ok());
  EXPECT_EQ(response, "\x08\x02");  // NOT_SERVING
}

TEST_F(ServerTest, HealthHasAPortOfItsOwnIfWanted) {
  EXPECT_EQ(Start()->health_address(), "");
  auto server = Server::Start({.listen = "127.0.0.1:0", .health_listen = "127.0.0.1:0"},
                              {{WorkerService::service_full_name(), &service_}});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->health_address(), method = "/grpc.health.v1.Health/Check";
  EXPECT_NE(address, (*server)->address());
  std::string response;
  ASSERT_TRUE(CallRaw(address, method, HealthRequest(WorkerService::service_full_name()), &response).ok());
  EXPECT_EQ(response, "\x08\x01");  // SERVING
  EXPECT_EQ(CallRaw(address, "/kvrelay.worker.v1.WorkerService/WatchStatus", "", &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  (*server)->SetNotServing();
  response.clear();
  ASSERT_TRUE(CallRaw(address, method, HealthRequest(""), &response).ok());
  EXPECT_EQ(response, "\x08\x02");  // NOT_SERVING
  SilentService other;
  const auto taken = Server::Start({.listen = "127.0.0.1:0", .health_listen = address},
                                   {{WorkerService::service_full_name(), &other}});
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ServerTest, ReflectionListsTheService) {
  auto server = Start();
  grpc::GenericStub stub(NewChannel(server->address()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto stream = stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag;
  bool ok;
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::Slice slice(std::string("\x3a\x01*"));  // list_services = "*"
  grpc::ByteBuffer out(&slice, 1), in;
  stream->Write(out, nullptr);
  queue.Next(&tag, &ok);
  stream->Read(&in, nullptr);
  queue.Next(&tag, &ok);
  ASSERT_TRUE(ok);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(in.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& s : slices) text.append(reinterpret_cast<const char*>(s.begin()), s.size());
  EXPECT_THAT(text, HasSubstr(WorkerService::service_full_name()));
  context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
}

TEST_F(ServerTest, ShutdownCancelsWhatIsLeft) {
  auto server = Start();
  auto stub = WorkerService::NewStub(NewChannel(server->address()));
  grpc::ClientContext context;
  auto reader = stub->WatchStatus(&context, {});
  while (service_.live == 0) {
  }
  server->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(service_.live, 0);
  WatchStatusResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(ServerTest, UnreachableAddressIsUnavailable) {
  std::string address;
  {
    auto server = Start();
    address = server->address();
  }
  auto stub = WorkerService::NewStub(NewChannel(address));
  grpc::ClientContext context;
  auto reader = stub->WatchStatus(&context, {});
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace kvrelay::rpc
