// The service over real gRPC, with fake workers in the same process.
#include "router/generation_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/router/router_fixture.h"

namespace kvrelay::router {
namespace {

using ::testing::HasSubstr;

std::string Expected(const std::string& prompt, uint32_t count) {
  return FakeText(FakeContinuation({prompt.begin(), prompt.end()}, count));
}

class GenerationServiceTest : public testing::Test {
 protected:
  FakeFabric fabric;
  FakeWorkerServer p1{{.role = v1::WORKER_ROLE_PREFILL, .instance = "p1"}, &fabric};
  FakeWorkerServer d1{{.role = v1::WORKER_ROLE_DECODE, .instance = "d1"}, &fabric};
};

TEST_F(GenerationServiceTest, EveryExecutionGivesTheSameText) {
  Router router({&p1}, {&d1});
  ASSERT_TRUE(router.WaitReady(2));
  for (const auto execution :
       {v1::EXECUTION_UNSPECIFIED, v1::EXECUTION_SPLIT, v1::EXECUTION_LOCAL, v1::EXECUTION_NO_CACHE}) {
    v1::GenerateRequest request = Prompt("hello", 20);
    request.set_execution(execution);
    const Answer answer = Generate(*router.stub, request);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.text, Expected("hello", 20));
    EXPECT_EQ(answer.responses.size(), 22u);
    const v1::GenerateResponse& last = answer.responses.back();
    EXPECT_EQ(last.finished().reason(), v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(last.positions().emitted(), 20u);
    const bool split = execution == v1::EXECUTION_UNSPECIFIED || execution == v1::EXECUTION_SPLIT;
    EXPECT_EQ(last.positions().received(), split ? 5u : 0u);
    EXPECT_FALSE(answer.responses[0].started().request_id().empty());
  }
}

TEST_F(GenerationServiceTest, ManyAtOnce) {
  FakeWorkerServer d2({.instance = "d2"}, &fabric);
  Router router({&p1}, {&d1, &d2});
  ASSERT_TRUE(router.WaitReady(3));
  std::vector<std::thread> clients;
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&, i] {
      const std::string prompt = "prompt " + std::to_string(i);
      v1::GenerateRequest request = Prompt(prompt, 30);
      request.set_execution(i % 3 == 0 ? v1::EXECUTION_LOCAL : v1::EXECUTION_SPLIT);
      request.set_trace(i % 2 == 0);
      const Answer answer = Generate(*router.stub, request);
      EXPECT_TRUE(answer.status.ok()) << answer.status;
      EXPECT_EQ(answer.text, Expected(prompt, 30));
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(Eventually([&] { return p1.active_calls() + d1.active_calls() + d2.active_calls() == 0; }));
}

TEST_F(GenerationServiceTest, StopStringFinishesTheWorker) {
  Router router({&p1}, {&d1});
  ASSERT_TRUE(router.WaitReady(2));
  const std::string text = Expected("hello", 100);
  v1::GenerateRequest request = Prompt("hello", 2000);
  request.add_stop(text.substr(60, 3));
  const Answer answer = Generate(*router.stub, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.text, text.substr(0, text.find(request.stop(0))));
  EXPECT_EQ(answer.responses.back().finished().stop(), request.stop(0));
}

TEST_F(GenerationServiceTest, CancelReachesTheWorkers) {
  p1.hold_tokens = true;
  Router router({&p1}, {&d1});
  ASSERT_TRUE(router.WaitReady(2));
  grpc::ClientContext context;
  auto reader = router.stub->Generate(&context, Prompt("hello", 20));
  ASSERT_TRUE(Eventually([&] { return p1.active_calls() == 1 && d1.active_calls() == 1; }));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return p1.active_calls() == 0 && d1.active_calls() == 0; }));
}

TEST_F(GenerationServiceTest, ADecodeWorkerThatDiesIsReplaced) {
  auto dying = std::make_unique<FakeWorkerServer>(FakeWorkerOptions{.instance = "d0"}, &fabric);
  dying->tokens_until_hold = 5;
  Router router({&p1}, {dying.get(), &d1});
  ASSERT_TRUE(router.WaitReady(3));
  for (const Worker& worker : router.registry.Snapshot()) {
    if (worker.instance() == "d1") router.registry.CallOpened(worker, 0);  // the other one is less loaded
  }
  grpc::ClientContext context;
  auto reader = router.stub->Generate(&context, Prompt("hello", 20));
  v1::GenerateResponse response;
  std::string text;
  while (reader->Read(&response)) {
    text += response.token().text() + response.finished().text();
    if (response.has_token() && response.token().index() == 5) {
      EXPECT_EQ(dying->active_calls(), 1);
      dying = nullptr;
    }
  }
  const grpc::Status status = reader->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(text, Expected("hello", 20));
  EXPECT_EQ(response.finished().replans(), 1u);
}

TEST_F(GenerationServiceTest, WithoutWorkersTheAnswerSaysSoAndWhenToTryAgain) {
  Router router({}, {});
  const Answer answer = Generate(*router.stub, Prompt("hello", 20));
  EXPECT_TRUE(absl::IsUnavailable(answer.status)) << answer.status;
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("no decode worker"));
  EXPECT_TRUE(rpc::RetryDelay(answer.status).has_value());
}

TEST_F(GenerationServiceTest, TwoModelsInOneService) {
  FakeWorkerServer other({.instance = "d9", .fingerprint = "another"}, &fabric);
  Router router({}, {&other});
  ASSERT_TRUE(Eventually([&] {
    const auto workers = router.registry.Snapshot();
    return !workers.empty() && workers[0].foreign_model;
  }));
  const Answer answer = Generate(*router.stub, Prompt("hello", 20));
  EXPECT_TRUE(absl::IsFailedPrecondition(answer.status)) << answer.status;
  grpc::ClientContext context;
  v1::GetStatusResponse status;
  ASSERT_TRUE(router.stub->GetStatus(&context, {}, &status).ok());
  ASSERT_EQ(status.workers_size(), 1);
  EXPECT_THAT(status.workers(0).problem(), HasSubstr("two models"));
  ASSERT_EQ(status.requests_size(), 1);
  EXPECT_EQ(status.requests(0).code(), static_cast<uint32_t>(absl::StatusCode::kFailedPrecondition));
}

TEST_F(GenerationServiceTest, BadRequestsLeaveTheServiceWhole) {
  Router router({&p1}, {&d1});
  ASSERT_TRUE(router.WaitReady(2));
  std::vector<v1::GenerateRequest> bad(4, Prompt("hello", 20));
  bad[0].set_max_tokens(1u << 31);
  bad[1].clear_text();
  bad[2].mutable_sampling()->set_top_p(2);
  for (int i = 0; i < 10000; ++i) bad[3].add_stop("x");
  for (const auto& request : bad) {
    EXPECT_TRUE(absl::IsInvalidArgument(Generate(*router.stub, request).status));
  }
  v1::GenerateRequest unknown = Prompt("hello", 20);
  unknown.set_model("gpt");
  EXPECT_TRUE(absl::IsNotFound(Generate(*router.stub, unknown).status));
  EXPECT_EQ(Generate(*router.stub, Prompt("hello", 20)).text, Expected("hello", 20));
}

TEST_F(GenerationServiceTest, AFullRouterRefuses) {
  d1.hold_tokens = true;
  Router router({}, {&d1}, /*max_active=*/1);
  ASSERT_TRUE(router.WaitReady(1));
  grpc::ClientContext context;
  auto reader = router.stub->Generate(&context, Prompt("hello", 20));
  ASSERT_TRUE(Eventually([&] { return d1.active_calls() == 1; }));
  const Answer refused = Generate(*router.stub, Prompt("hello", 20));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  d1.hold_tokens = false;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(Generate(*router.stub, Prompt("hello", 20)).status.ok());
}

TEST_F(GenerationServiceTest, ASlowClientIsCutOffAndOthersDoNotNotice) {
  Router router({}, {&d1});
  ASSERT_TRUE(router.WaitReady(1));
  v1::GenerateRequest greedy = Prompt("hello", kFakeContext - 5);
  greedy.set_trace(true);
  // Within the process there is no window of bytes: a message waits until it is read.
  const auto inside = v1::GenerationService::NewStub(router.server->InProcessChannel());
  for (v1::GenerationService::Stub* stub : {router.stub.get(), inside.get()}) {
    SCOPED_TRACE(stub == inside.get() ? "within the process" : "over a connection");
    grpc::ClientContext context;
    auto reader = stub->Generate(&context, greedy);
    reader->WaitForInitialMetadata();
    EXPECT_EQ(Generate(*router.stub, Prompt("hello", 20)).text, Expected("hello", 20));
    EXPECT_TRUE(Eventually([&] { return d1.active_calls() == 0; }));
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_FALSE(reader->Finish().ok());
  }
}

TEST_F(GenerationServiceTest, ADrainingRouterRefuses) {
  Router router({}, {&d1});
  ASSERT_TRUE(router.WaitReady(1));
  router.service->Drain();
  EXPECT_TRUE(absl::IsUnavailable(Generate(*router.stub, Prompt("hello", 20)).status));
}

TEST_F(GenerationServiceTest, TextAndFacts) {
  Router router({&p1}, {&d1});
  v1::TokenizeRequest tokenize;
  tokenize.set_text("h\xc3\xa9");
  v1::TokenizeResponse tokens;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(router.stub->Tokenize(&context, tokenize, &tokens).ok());
  }
  EXPECT_THAT(tokens.ids(), testing::ElementsAre('h', 0xc3, 0xa9));
  EXPECT_THAT(tokens.pieces(), testing::ElementsAre("h", "\xef\xbf\xbd", "\xef\xbf\xbd"));
  v1::DetokenizeRequest detokenize;
  *detokenize.mutable_ids() = tokens.ids();
  v1::DetokenizeResponse text;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(router.stub->Detokenize(&context, detokenize, &text).ok());
  }
  EXPECT_EQ(text.text(), tokenize.text());
  detokenize.add_ids(kFakeVocabulary);
  {
    grpc::ClientContext context;
    EXPECT_EQ(router.stub->Detokenize(&context, detokenize, &text).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  grpc::ClientContext context;
  v1::GetModelResponse model;
  ASSERT_TRUE(router.stub->GetModel(&context, {}, &model).ok());
  EXPECT_EQ(model.name(), "fake");
  EXPECT_EQ(model.context_length(), kFakeContext);
  EXPECT_THAT(model.eos_token_ids(), testing::ElementsAre(kFakeEos));
  EXPECT_FALSE(model.has_bos_token_id());
}

}  // namespace
}  // namespace kvrelay::router
