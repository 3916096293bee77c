#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/worker/handoff_messages.h"
#include "tests/worker/test_client.h"
#include "tests/worker/test_worker.h"

namespace kvrelay::decode_worker {
namespace {

using kvrelay::testing::DecodeClient;
using kvrelay::testing::FakeNextToken;
using kvrelay::testing::HandoffMessages;
using kvrelay::testing::HandoffParams;
using kvrelay::testing::HoldsFakeKv;
using kvrelay::testing::KvClient;
using kvrelay::testing::MakeSpec;
using kvrelay::testing::TestDecodeWorker;
using worker::v1::ReceiveKvRequest;

class ReceiveKvTest : public ::testing::Test {
 protected:
  // A reservation that waits for KV.
  std::unique_ptr<DecodeClient> Reserved(const worker::v1::GenerationSpec& spec, char id = 'a') {
    auto client = std::make_unique<DecodeClient>(*worker_.stub);
    EXPECT_TRUE(client->Reserve(id, spec, worker::v1::SOURCE_RECEIVED));
    const auto event = client->Next();
    EXPECT_TRUE(event.has_value() && event->has_reserved());
    return client;
  }
  std::vector<int32_t> Tokens(const worker::v1::GenerationSpec& spec) {
    return {spec.token_ids().begin(), spec.token_ids().end()};
  }
  TestDecodeWorker worker_;
};

TEST_F(ReceiveKvTest, PublishedKvIsDecodedFrom) {
  auto spec = MakeSpec(150, 6);
  spec.set_trace(true);
  worker_.engine().Allow(0);
  auto decode = Reserved(spec);
  const auto cache = worker_.engine().last_cache();
  KvClient kv(*worker_.kv_stub);
  ASSERT_TRUE(kv.SendAll(HandoffMessages(spec)).ok());
  EXPECT_EQ(kv.response.winner(), 1);
  EXPECT_FALSE(kv.response.duplicate());
  EXPECT_EQ(kv.response.received(), 150);
  EXPECT_EQ(kv.response.payload_bytes(), 3 * 150 * worker_.engine().kv_layout().PositionBytes());
  EXPECT_TRUE(HoldsFakeKv(*cache, Tokens(spec)));
  // Token 0 is on the stream before the engine has made a step.
  const auto first = decode->Next();
  ASSERT_TRUE(first.has_value() && first->has_selected());
  EXPECT_EQ(first->selected().index(), 0);
  EXPECT_EQ(first->selected().token_id(), FakeNextToken(Tokens(spec), 300));
  EXPECT_EQ(first->selected().positions().received(), 150);
  EXPECT_EQ(first->selected().positions().kv_ready(), 150);
  EXPECT_EQ(first->selected().positions().computed(), 0);
  worker_.engine().Allow(INT64_MAX);
  const auto rest = decode->Rest();
  ASSERT_EQ(rest.size(), 6);
  for (int i = 1; i < 6; ++i) EXPECT_EQ(rest[i - 1].selected().index(), i);
  const worker::v1::Ended& ended = rest.back().ended();
  EXPECT_EQ(ended.positions().received(), 150);
  EXPECT_EQ(ended.positions().computed(), 5);
  EXPECT_FALSE(ended.has_prefill());
}

TEST_F(ReceiveKvTest, RequestThatEndsWithItsFirstTokenIsFreedAtTheCommit) {
  const auto spec = MakeSpec(70, 1);
  worker_.engine().Allow(0);
  auto decode = Reserved(spec);
  KvClient kv(*worker_.kv_stub);
  ASSERT_TRUE(kv.SendAll(HandoffMessages(spec, {.ends_request = true})).ok());
  EXPECT_EQ(kv.response.received(), 70);
  const auto events = decode->Rest();
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(events[0].selected().end(), worker::v1::END_REASON_LENGTH);
  EXPECT_EQ(events[1].ended().reason(), worker::v1::END_REASON_LENGTH);
  EXPECT_EQ(events[1].ended().positions().received(), 70);
  EXPECT_EQ(events[1].ended().positions().computed(), 0);
  EXPECT_TRUE(worker_.engine().WaitUntilFree());
}

struct Spoiled {
  const char* name;
  grpc::StatusCode code;
  HandoffParams params;
  std::function<void(std::vector<ReceiveKvRequest>&)> change = [](auto&) {};
};

TEST_F(ReceiveKvTest, SpoiledHandoffsAreRefusedAndTheNextAttemptWorks) {
  using Messages = std::vector<ReceiveKvRequest>;
  const kv::KvLayout other_layout{.layers = 3, .kv_heads = 1, .head_dim = 32, .type = kv::KvType::kF16};
  const std::vector<Spoiled> all = {
      {"fingerprint", grpc::StatusCode::FAILED_PRECONDITION, {.fingerprint = "f2"}},
      {"numerics", grpc::StatusCode::FAILED_PRECONDITION, {.numerics_id = "2"}},
      {"layout", grpc::StatusCode::FAILED_PRECONDITION, {.layout = other_layout}},
      {"attempt", grpc::StatusCode::ABORTED, {.attempt = 2}},
      {"attempt 0", grpc::StatusCode::ABORTED, {.attempt = 0}},
      {"sender", grpc::StatusCode::ABORTED, {.sender = "prefill-2"}},
      {"unknown id", grpc::StatusCode::NOT_FOUND, {.id = 'x'}},
      {"empty id", grpc::StatusCode::NOT_FOUND, {}, [](Messages& m) { m[0].mutable_header()->clear_handoff_id(); }},
      {"flipped byte",
       grpc::StatusCode::DATA_LOSS,
       {},
       [](Messages& m) { (*m[3].mutable_frame()->mutable_payload())[5] ^= 1; }},
      {"missing frame", grpc::StatusCode::DATA_LOSS, {}, [](Messages& m) { m.erase(m.begin() + 2); }},
      {"no commit", grpc::StatusCode::DATA_LOSS, {}, [](Messages& m) { m.pop_back(); }},
      {"no header", grpc::StatusCode::INVALID_ARGUMENT, {}, [](Messages& m) { m.erase(m.begin()); }},
      {"two headers", grpc::StatusCode::INVALID_ARGUMENT, {}, [](Messages& m) { m.insert(m.begin(), m[0]); }},
      {"nothing set", grpc::StatusCode::INVALID_ARGUMENT, {}, [](Messages& m) { m[1].Clear(); }},
      {"frame twice", grpc::StatusCode::INVALID_ARGUMENT, {}, [](Messages& m) { m.insert(m.begin() + 1, m[1]); }},
      {"wrong digest",
       grpc::StatusCode::DATA_LOSS,
       {},
       [](Messages& m) { m.back().mutable_commit()->set_digest(std::string(16, 0)); }},
      {"no token", grpc::StatusCode::DATA_LOSS, {}, [](Messages& m) { m.back().mutable_commit()->clear_selected(); }},
  };
  const auto spec = MakeSpec(150, 3);
  for (const Spoiled& spoiled : all) {
    SCOPED_TRACE(spoiled.name);
    auto decode = Reserved(spec);
    auto messages = HandoffMessages(spec, spoiled.params);
    spoiled.change(messages);
    KvClient kv(*worker_.kv_stub);
    const grpc::Status status = kv.SendAll(messages);
    EXPECT_EQ(status.error_code(), spoiled.code) << status.error_message();
    EXPECT_FALSE(status.error_message().empty());
    EXPECT_EQ(status.error_message().find(kvrelay::testing::HandoffId('a')), std::string::npos);
    ASSERT_TRUE(decode->Attempt(2, "prefill-3"));
    const auto open = decode->Next();
    ASSERT_TRUE(open.has_value());
    EXPECT_EQ(open->attempt_open().attempt(), 2);
    KvClient again(*worker_.kv_stub);
    EXPECT_TRUE(again.SendAll(HandoffMessages(spec, {.attempt = 2, .sender = "prefill-3"})).ok());
    EXPECT_EQ(again.response.winner(), 2);
    EXPECT_EQ(decode->Rest().size(), 4);
    EXPECT_TRUE(worker_.engine().WaitUntilFree());
  }
}

TEST_F(ReceiveKvTest, EmptyCallIsDataLoss) {
  KvClient kv(*worker_.kv_stub);
  EXPECT_EQ(kv.Finish().error_code(), grpc::StatusCode::DATA_LOSS);
}

TEST_F(ReceiveKvTest, NewAttemptClosesTheOldCall) {
  const auto spec = MakeSpec(150, 3);
  auto decode = Reserved(spec);
  const auto messages = HandoffMessages(spec);
  KvClient old(*worker_.kv_stub);
  ASSERT_TRUE(old.Write(messages[0]));
  ASSERT_TRUE(old.Write(messages[1]));
  decode->Attempt(2, "prefill-2");
  ASSERT_TRUE(decode->Next()->has_attempt_open());
  while (old.Write(messages[2])) {
  }
  EXPECT_EQ(old.Finish().error_code(), grpc::StatusCode::ABORTED);
  KvClient fresh(*worker_.kv_stub);
  EXPECT_TRUE(fresh.SendAll(HandoffMessages(spec, {.attempt = 2, .sender = "prefill-2"})).ok());
  EXPECT_EQ(decode->Rest().size(), 4);
}

TEST_F(ReceiveKvTest, LateCommitGetsTheWinnersReceipt) {
  const auto spec = MakeSpec(150, 3);
  worker_.engine().Allow(0);
  auto decode = Reserved(spec);
  KvClient winner(*worker_.kv_stub);
  ASSERT_TRUE(winner.SendAll(HandoffMessages(spec)).ok());
  ASSERT_TRUE(decode->Next()->has_selected());
  decode->Attempt(2, "prefill-2");
  const auto answer = decode->Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->committed().winner(), 1);
  KvClient late(*worker_.kv_stub);
  ASSERT_TRUE(late.SendAll(HandoffMessages(spec)).ok());
  EXPECT_TRUE(late.response.duplicate());
  EXPECT_EQ(late.response.winner(), 1);
  EXPECT_EQ(late.response.received(), 150);
  worker_.engine().Allow(INT64_MAX);
  EXPECT_EQ(decode->Rest().size(), 3);  // 2 tokens, Ended: the duplicate added none
}

// The owner ends at every point of a transfer: blocks go back, the sender is told, and what it sends later goes
// nowhere, also when another request has the same blocks by then.
TEST_F(ReceiveKvTest, OwnersEndAtAnyFrameStopsTheTransfer) {
  const auto spec = MakeSpec(150, 3, /*salt=*/1);
  const auto messages = HandoffMessages(spec);
  for (size_t sent = 1; sent < messages.size(); ++sent) {
    SCOPED_TRACE(sent);
    auto owner = Reserved(spec, 'a');
    KvClient kv(*worker_.kv_stub);
    for (size_t i = 0; i < sent; ++i) ASSERT_TRUE(kv.Write(messages[i]));
    owner->Cancel();
    ASSERT_TRUE(worker_.engine().WaitUntilFree());

    const auto other_spec = MakeSpec(150, 3, /*salt=*/2);
    worker_.engine().Allow(0);
    auto other = Reserved(other_spec, 'b');
    const auto cache = worker_.engine().last_cache();
    KvClient other_kv(*worker_.kv_stub);
    ASSERT_TRUE(other_kv.SendAll(HandoffMessages(other_spec, {.id = 'b'})).ok());
    for (size_t i = sent; i < messages.size(); ++i) kv.Write(messages[i]);
    // NOT_FOUND if even the header came too late.
    EXPECT_THAT(kv.Finish().error_code(), ::testing::AnyOf(grpc::StatusCode::CANCELLED, grpc::StatusCode::NOT_FOUND));
    const std::vector<int32_t> tokens(other_spec.token_ids().begin(), other_spec.token_ids().end());
    EXPECT_TRUE(HoldsFakeKv(*cache, tokens));
    worker_.engine().Allow(INT64_MAX);
  }
}

TEST_F(ReceiveKvTest, FinishBeforeTheKvComes) {
  auto decode = Reserved(MakeSpec(10, 5));
  ASSERT_TRUE(decode->SendFinish());
  const auto events = decode->Rest();
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].ended().reason(), worker::v1::END_REASON_FINISHED_BY_ROUTER);
  EXPECT_TRUE(decode->Finish().ok());
  EXPECT_TRUE(worker_.engine().WaitUntilFree());
}

TEST_F(ReceiveKvTest, SenderThatDiesLeavesTheReservationOpen) {
  const auto spec = MakeSpec(150, 3);
  auto decode = Reserved(spec);
  const auto messages = HandoffMessages(spec);
  {
    KvClient dying(*worker_.kv_stub);
    dying.Write(messages[0]);
    dying.Write(messages[1]);
  }
  decode->Attempt(2, "prefill-1");
  ASSERT_TRUE(decode->Next()->has_attempt_open());
  KvClient next(*worker_.kv_stub);
  EXPECT_TRUE(next.SendAll(HandoffMessages(spec, {.attempt = 2})).ok());
  EXPECT_EQ(decode->Rest().size(), 4);
}

TEST_F(ReceiveKvTest, TwoCallsForOneAttemptPublishOnce) {
  const auto spec = MakeSpec(150, 3);
  auto decode = Reserved(spec);
  const auto messages = HandoffMessages(spec);
  KvClient first(*worker_.kv_stub), second(*worker_.kv_stub);
  ASSERT_TRUE(first.Write(messages[0]));
  ASSERT_TRUE(first.Write(messages[1]));
  const grpc::Status second_status = second.SendAll(messages);
  for (size_t i = 2; i < messages.size(); ++i) first.Write(messages[i]);
  const grpc::Status first_status = first.Finish();
  // Whichever comes first on the wire publishes; the other is aborted, or comes so late that it is a duplicate.
  EXPECT_TRUE(first_status.ok() || second_status.ok());
  if (first_status.ok() && second_status.ok()) {
    EXPECT_NE(first.response.duplicate(), second.response.duplicate());
  } else {
    EXPECT_EQ((first_status.ok() ? second_status : first_status).error_code(), grpc::StatusCode::ABORTED);
  }
  EXPECT_EQ(decode->Rest().size(), 4);
}

TEST_F(ReceiveKvTest, MessageBeyondTheLimitIsRefused) {
  ReceiveKvRequest huge;
  huge.mutable_frame()->set_payload(std::string(17 << 20, 'x'));
  KvClient kv(*worker_.kv_stub);
  kv.Write(huge);
  EXPECT_EQ(kv.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace kvrelay::decode_worker
