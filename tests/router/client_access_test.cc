// Who may ask a router, and how much, over real gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/rpc/http_peer.h"
#include "router/client_identity.h"
#include "tests/router/router_fixture.h"

namespace kvrelay::router {
namespace {

using ::testing::HasSubstr;

constexpr char kAlice[] = "alice-0123456789abcdef", kBob[] = "bob-0123456789abcdef";

std::unique_ptr<ClientTokens> Tokens() {
  const std::string path = ::testing::TempDir() + "/client_access_test.tokens";
  std::ofstream(path) << "alice " << kAlice << "\nbob " << kBob << "\n";
  auto tokens = ClientTokens::Load(path);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  std::filesystem::remove(path);
  return *std::move(tokens);
}

class ClientAccessTest : public testing::Test {
 protected:
  FakeFabric fabric;
  FakeWorkerServer p1{{.role = v1::WORKER_ROLE_PREFILL, .instance = "p1"}, &fabric};
  FakeWorkerServer d1{{.role = v1::WORKER_ROLE_DECODE, .instance = "d1"}, &fabric};
  std::unique_ptr<ClientTokens> tokens = Tokens();
};

// Every method, with the metadata of one call. The status codes in the order of the service's methods.
std::vector<absl::Status> CallAll(Router& router, const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::vector<absl::Status> statuses;
  const auto call = [&](auto method) {
    grpc::ClientContext context;
    for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
    statuses.push_back(rpc::FromGrpc(method(context)));
  };
  v1::GenerationService::Stub& stub = *router.stub;
  call([&](grpc::ClientContext& context) {
    const auto reader = stub.Generate(&context, Prompt("hello", 3));
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  });
  call([&](grpc::ClientContext& context) {
    v1::TokenizeRequest request;
    request.set_text("hello");
    v1::TokenizeResponse response;
    return stub.Tokenize(&context, request, &response);
  });
  call([&](grpc::ClientContext& context) {
    v1::DetokenizeRequest request;
    request.add_ids(104);
    v1::DetokenizeResponse response;
    return stub.Detokenize(&context, request, &response);
  });
  call([&](grpc::ClientContext& context) {
    v1::GetModelResponse response;
    return stub.GetModel(&context, {}, &response);
  });
  call([&](grpc::ClientContext& context) {
    v1::GetStatusResponse response;
    return stub.GetStatus(&context, {}, &response);
  });
  return statuses;
}

TEST_F(ClientAccessTest, EveryMethodNeedsOneValidToken) {
  Router router({&p1}, {&d1}, 64, tokens.get());
  ASSERT_TRUE(router.WaitReady(2));
  const std::string good = std::string("Bearer ") + kAlice;
  for (const auto& status : CallAll(router, {{"authorization", good}})) EXPECT_EQ(status, absl::OkStatus());
  for (const auto& status : CallAll(router, {{"authorization", std::string("bearer ") + kBob}})) {
    EXPECT_EQ(status, absl::OkStatus());
  }
  const std::string refusal = "a valid token is needed: authorization: Bearer TOKEN";
  const std::vector<std::vector<std::pair<std::string, std::string>>> bad = {
      {},
      {{"authorization", ""}},
      {{"authorization", "Bearer "}},
      {{"authorization", kAlice}},
      {{"authorization", std::string("Basic ") + kAlice}},
      {{"authorization", good + "0"}},
      {{"authorization", good.substr(0, good.size() - 1)}},
      {{"authorization", "Bearer " + std::string(5000, 'x')}},
      {{"authorization", good}, {"authorization", good}},
      {{"x-authorization", good}}};
  for (const auto& metadata : bad) {
    SCOPED_TRACE(testing::PrintToString(metadata));
    for (const auto& status : CallAll(router, metadata)) {
      EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
      EXPECT_EQ(status.message(), refusal);
    }
  }
}

TEST_F(ClientAccessTest, ClientsSeeTheirOwnRequests) {
  Router router({&p1}, {&d1}, 64, tokens.get());
  ASSERT_TRUE(router.WaitReady(2));
  CallAll(router, {{"authorization", std::string("Bearer ") + kAlice}});
  CallAll(router, {});
  for (const auto& [token, own] : {std::pair{kAlice, 1}, {kBob, 0}}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", std::string("Bearer ") + token);
    v1::GetStatusResponse status;
    ASSERT_TRUE(router.stub->GetStatus(&context, {}, &status).ok());
    ASSERT_EQ(status.requests_size(), own) << token;
    if (own == 0) continue;
    EXPECT_FALSE(status.requests(0).request_id().empty());
    EXPECT_EQ(status.requests(0).completion_tokens(), 3u);
    EXPECT_FALSE(status.requests(0).running());
  }
}

TEST_F(ClientAccessTest, NothingThatAClientSendsAsMetadataReachesWorkers) {
  Router router({&p1}, {&d1}, 64, tokens.get());
  ASSERT_TRUE(router.WaitReady(2));
  for (const auto& status : CallAll(router, {{"authorization", std::string("Bearer ") + kAlice},
                                             {"x-private", "hush"},
                                             {"x-binary-bin", "hush"},
                                             {"cookie", "hush"},
                                             {"grpc-trace-bin", "hush"},
                                             {"traceparent", "hush"}})) {
    EXPECT_EQ(status, absl::OkStatus());
  }
  for (const FakeWorkerServer* worker : {&p1, &d1}) {
    ASSERT_FALSE(worker->metadata().empty()) << "it was not called";
    for (const auto& [name, value] : worker->metadata()) {
      EXPECT_EQ(name, "user-agent") << value;
      EXPECT_THAT(value, testing::Not(HasSubstr("hush")));
    }
  }
}

TEST_F(ClientAccessTest, MetadataHasALimit) {
  Router router({&p1}, {&d1});
  ASSERT_TRUE(router.WaitReady(2));
  // On a connection of its own: gRPC 1.51 leaves one on which this happened with header tables out of step
  // (CVE-2023-32731), so that later calls on it may fail too.
  const auto stub = v1::GenerationService::NewStub(rpc::NewChannel(router.server->address()));
  grpc::ClientContext context;
  context.AddMetadata("x-large", std::string(rpc::kMaxMetadataBytes, 'x'));
  v1::GetStatusResponse response;
  EXPECT_EQ(stub->GetStatus(&context, {}, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (const auto& status : CallAll(router, {})) EXPECT_EQ(status, absl::OkStatus());
}

// One generation of a client that holds its place until the test lets go.
class Held {
 public:
  Held(Router& router, uint32_t max_tokens, const std::string& token) {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    reader_ = router.stub->Generate(&context_, Prompt("hello", max_tokens));
    v1::GenerateResponse response;
    EXPECT_TRUE(reader_->Read(&response) && response.has_started());
  }
  ~Held() {
    context_.TryCancel();
    reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

TEST_F(ClientAccessTest, RequestsOfOneClient) {
  d1.tokens_until_hold = 1;
  Router router({}, {&d1}, 64, tokens.get(), {.max_requests = 2});
  ASSERT_TRUE(router.WaitReady(1));
  {
    const Held one(router, 20, kAlice), two(router, 20, kAlice);
    const Answer refused = Generate(*router.stub, Prompt("hello", 1), kAlice);
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("alice"));
    EXPECT_TRUE(rpc::RetryDelay(refused.status).has_value());
    grpc::ClientContext context;
    context.AddMetadata("authorization", std::string("Bearer ") + kAlice);
    v1::TokenizeRequest tokenize;
    tokenize.set_text("hello");
    v1::TokenizeResponse response;
    EXPECT_EQ(router.stub->Tokenize(&context, tokenize, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Generate(*router.stub, Prompt("hello", 1), kBob).status, absl::OkStatus()) << "another client";
  }
  EXPECT_TRUE(Eventually([&] { return Generate(*router.stub, Prompt("hello", 1), kAlice).status.ok(); }));
}

TEST_F(ClientAccessTest, TokensOfOneClient) {
  d1.tokens_until_hold = 1;
  Router router({}, {&d1}, 64, /*tokens=*/nullptr, {.max_tokens = 50});
  ASSERT_TRUE(router.WaitReady(1));
  {
    const Held held(router, 20, "");  // 25 with the prompt
    EXPECT_EQ(Generate(*router.stub, Prompt("hello", 1)).status, absl::OkStatus());
    const Answer refused = Generate(*router.stub, Prompt("hello", 21));
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
    EXPECT_TRUE(rpc::RetryDelay(refused.status).has_value());
    const Answer never = Generate(*router.stub, Prompt("hello", 46));
    EXPECT_TRUE(absl::IsInvalidArgument(never.status)) << never.status;
  }
  d1.tokens_until_hold = -1;
  EXPECT_TRUE(Eventually([&] { return Generate(*router.stub, Prompt("hello", 45)).status.ok(); }));
}

// The HTTP gateway speaks for its clients; nobody else can.
TEST_F(ClientAccessTest, AddressesToldByTheGatewayCountFromWithinTheProcessOnly) {
  d1.tokens_until_hold = 1;
  Router router({}, {&d1}, 64, /*tokens=*/nullptr, {.max_requests = 1});
  ASSERT_TRUE(router.WaitReady(1));
  const auto inside = v1::GenerationService::NewStub(router.server->InProcessChannel());
  const auto hold = [](v1::GenerationService::Stub& stub, grpc::ClientContext& context, const char* peer) {
    if (peer != nullptr) context.AddMetadata(rpc::kHttpPeer, peer);
    auto reader = stub.Generate(&context, Prompt("hello", 20));
    v1::GenerateResponse response;
    if (reader->Read(&response)) return reader;
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    reader = nullptr;
    return reader;
  };
  grpc::ClientContext a, again, b, untold, outside, outside_again;
  const auto first = hold(*inside, a, "ipv4:10.0.0.1");
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(hold(*inside, again, "ipv4:10.0.0.1"), nullptr) << "has its one request";
  const auto second = hold(*inside, b, "ipv4:10.0.0.2");
  EXPECT_NE(second, nullptr);
  const auto third = hold(*inside, untold, nullptr);
  EXPECT_NE(third, nullptr);
  const auto fourth = hold(*router.stub, outside, "ipv4:10.0.0.3");
  EXPECT_NE(fourth, nullptr);
  EXPECT_EQ(hold(*router.stub, outside_again, "ipv4:10.0.0.4"), nullptr) << "is 127.0.0.1 whatever it says";
  for (grpc::ClientContext* context : {&a, &b, &untold, &outside}) context->TryCancel();
  for (const auto* reader : {&first, &second, &third, &fourth}) {
    ASSERT_NE(*reader, nullptr);
    EXPECT_EQ((*reader)->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST(PeerHost, HasNoPort) {
  EXPECT_EQ(PeerHost("ipv4:127.0.0.1:50051"), "ipv4:127.0.0.1");
  EXPECT_EQ(PeerHost("ipv6:%5B::1%5D:50051"), "ipv6:%5B::1%5D");
  EXPECT_EQ(PeerHost("unix:/run/x:1"), "unix:/run/x:1");
  EXPECT_EQ(PeerHost(""), "");
}

}  // namespace
}  // namespace kvrelay::router
