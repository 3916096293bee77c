#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/rpc/status_mapping.h"
#include "decode_worker/decode_call.h"
#include "tests/worker/test_client.h"
#include "tests/worker/test_worker.h"

namespace kvrelay::decode_worker {
namespace {

using kvrelay::testing::DecodeClient;
using kvrelay::testing::ExpectedTokens;
using kvrelay::testing::HandoffId;
using kvrelay::testing::MakeSpec;
using kvrelay::testing::TestDecodeWorker;
using worker::v1::DecodeRequest;
using worker::v1::DecodeResponse;

TEST(DecodeTest, ComputesAPromptItself) {
  TestDecodeWorker worker;
  auto spec = MakeSpec(150, 5);
  spec.set_trace(true);
  spec.set_logprobs(2);
  DecodeClient client(*worker.stub);
  ASSERT_TRUE(client.Reserve('a', spec, worker::v1::SOURCE_COMPUTED));
  const auto events = client.Rest();
  EXPECT_TRUE(client.Finish().ok());
  ASSERT_EQ(events.size(), 7);
  EXPECT_EQ(events[0].reserved().identity().instance(), "decode-1");
  EXPECT_EQ(events[0].reserved().kv_address(), worker.address());
  EXPECT_EQ(events[0].reserved().positions_held(), 0);
  const std::vector<uint32_t> expected = ExpectedTokens(spec, 5);
  for (int i = 0; i < 5; ++i) {
    const worker::v1::Selected& selected = events[i + 1].selected();
    EXPECT_EQ(selected.index(), i);
    EXPECT_EQ(selected.token_id(), expected[i]);
    EXPECT_EQ(selected.positions().computed(), 150 + i);
    EXPECT_EQ(selected.positions().kv_ready(), 150 + i);
    EXPECT_TRUE(selected.has_run());
    EXPECT_EQ(selected.top_size(), 2);
  }
  const worker::v1::Ended& ended = events[6].ended();
  EXPECT_EQ(ended.reason(), worker::v1::END_REASON_LENGTH);
  EXPECT_EQ(ended.positions().computed(), 154);
  EXPECT_EQ(ended.positions().received(), 0);
  EXPECT_TRUE(ended.has_queue());
  EXPECT_TRUE(ended.has_prefill());
  EXPECT_EQ(ended.rows_per_step_max(), 100);
  EXPECT_TRUE(worker.engine().WaitUntilFree());
}

TEST(DecodeTest, HistoryContinuesTheIndices) {
  TestDecodeWorker worker;
  auto spec = MakeSpec(20, 8);
  spec.set_prompt_length(15);
  DecodeClient client(*worker.stub);
  client.Reserve('a', spec, worker::v1::SOURCE_COMPUTED);
  const auto events = client.Rest();
  ASSERT_EQ(events.size(), 5);  // Reserved, 3 tokens, Ended
  EXPECT_EQ(events[1].selected().index(), 5);
  EXPECT_EQ(events[3].selected().end(), worker::v1::END_REASON_LENGTH);
}

TEST(DecodeTest, NoCacheKeepsNothing) {
  TestDecodeWorker worker;
  DecodeClient client(*worker.stub);
  client.Reserve('a', MakeSpec(10, 3), worker::v1::SOURCE_NO_CACHE);
  const auto events = client.Rest();
  ASSERT_EQ(events.size(), 5);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(events[i].selected().positions().kv_ready(), 0);
  EXPECT_EQ(events[4].ended().positions().computed(), 10 + 11 + 12);
}

TEST(DecodeTest, TwoRequestsWithTheSamePromptAtOnce) {
  TestDecodeWorker worker;
  const auto spec = MakeSpec(70, 20);
  DecodeClient first(*worker.stub), second(*worker.stub);
  first.Reserve('a', spec, worker::v1::SOURCE_COMPUTED);
  second.Reserve('b', spec, worker::v1::SOURCE_COMPUTED);
  const auto a = first.Rest(), b = second.Rest();
  ASSERT_EQ(a.size(), 22);
  ASSERT_EQ(b.size(), 22);
  for (int i = 1; i <= 20; ++i) EXPECT_EQ(a[i].selected().token_id(), b[i].selected().token_id());
}

TEST(DecodeTest, FinishEndsARunningStream) {
  TestDecodeWorker worker;
  worker.engine().Allow(5);
  DecodeClient client(*worker.stub);
  client.Reserve('a', MakeSpec(10, 500), worker::v1::SOURCE_COMPUTED);
  EXPECT_TRUE(client.Next()->has_reserved());
  EXPECT_TRUE(client.Next()->has_selected());
  ASSERT_TRUE(client.SendFinish());
  const auto rest = client.Rest();
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(rest.back().ended().reason(), worker::v1::END_REASON_FINISHED_BY_ROUTER);
  EXPECT_TRUE(client.Finish().ok());
  EXPECT_EQ(worker.engine().referenced(), 0);
}

TEST(DecodeTest, AHeldStreamWaitsForItsReader) {
  TestDecodeWorker worker;
  worker.engine().Allow(6);
  const auto spec = MakeSpec(10, 300);
  DecodeClient client(*worker.stub);
  ASSERT_TRUE(client.Reserve('a', spec, worker::v1::SOURCE_COMPUTED));
  std::vector<uint32_t> tokens;
  const auto take = [&tokens](const std::vector<DecodeResponse>& events) {
    for (const DecodeResponse& event : events)
      if (event.has_selected()) tokens.push_back(event.selected().token_id());
  };
  ASSERT_TRUE(client.SendHold());
  ASSERT_TRUE(client.SendHold());
  worker.engine().Allow(INT64_MAX);
  take(client.UntilStill());
  EXPECT_LT(tokens.size(), 300u);
  EXPECT_GT(worker.engine().referenced(), 0);
  ASSERT_TRUE(client.SendResume());
  take(client.Rest());
  EXPECT_TRUE(client.Finish().ok());
  EXPECT_EQ(tokens, ExpectedTokens(spec, 300));
}

TEST(DecodeTest, AHeldStreamCanBeFinishedAndCancelled) {
  TestDecodeWorker worker;
  for (const bool finish : {true, false}) {
    DecodeClient client(*worker.stub);
    client.Reserve('a', MakeSpec(10, 1900), worker::v1::SOURCE_COMPUTED);
    ASSERT_TRUE(client.SendHold());
    if (!finish) {
      ASSERT_TRUE(client.Next()->has_reserved());
      client.Cancel();
    } else {
      ASSERT_TRUE(client.SendFinish());
      EXPECT_EQ(client.Rest().back().ended().reason(), worker::v1::END_REASON_FINISHED_BY_ROUTER);
    }
    EXPECT_TRUE(worker.engine().WaitUntilFree());
  }
}

TEST(DecodeTest, CancelFreesWhileHeldAnywhere) {
  TestDecodeWorker worker;
  for (int units = 0; units < 9; ++units) {
    worker.engine().Allow(units);
    {
      DecodeClient client(*worker.stub);
      client.Reserve('a', MakeSpec(150, 500), worker::v1::SOURCE_COMPUTED);
      ASSERT_TRUE(client.Next()->has_reserved());
      EXPECT_GT(worker.engine().referenced(), 0);
      client.Cancel();
      EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::CANCELLED);
    }
    EXPECT_TRUE(worker.engine().WaitUntilFree()) << units;
  }
  EXPECT_TRUE(worker.calls().WaitUntilIdle(absl::Seconds(10)));
}

TEST(DecodeTest, HalfClosedCallsStreamOn) {
  TestDecodeWorker worker;
  DecodeClient client(*worker.stub);
  client.Reserve('a', MakeSpec(10, 30), worker::v1::SOURCE_COMPUTED);
  client.HalfClose();
  EXPECT_EQ(client.Rest().size(), 32);
  EXPECT_TRUE(client.Finish().ok());
}

TEST(DecodeTest, NoRoomIsRefusedWithARetryDelay) {
  TestDecodeWorker worker({.blocks = 4});
  worker.engine().Allow(0);
  DecodeClient first(*worker.stub);
  first.Reserve('a', MakeSpec(100, 100), worker::v1::SOURCE_COMPUTED);  // all 4 blocks
  ASSERT_TRUE(first.Next()->has_reserved());
  DecodeClient second(*worker.stub);
  second.Reserve('b', MakeSpec(10, 10), worker::v1::SOURCE_COMPUTED);
  const grpc::Status status = second.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(rpc::RetryDelay(rpc::FromGrpc(status)).has_value());
  EXPECT_EQ(worker.engine().referenced(), 4);
}

TEST(DecodeTest, HeartbeatsWhileHeldAndWhileWaiting) {
  TestDecodeWorker worker;
  worker.engine().Allow(0);
  DecodeClient computed(*worker.stub), received(*worker.stub);
  computed.Reserve('a', MakeSpec(10, 5), worker::v1::SOURCE_COMPUTED);
  received.Reserve('b', MakeSpec(10, 5), worker::v1::SOURCE_RECEIVED);
  ASSERT_TRUE(computed.Next()->has_reserved());
  ASSERT_TRUE(received.Next()->has_reserved());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(computed.WaitForHeartbeat());
    EXPECT_TRUE(received.WaitForHeartbeat());
  }
}

// A reader that reads nothing: its stream fills up and is cancelled, nobody else notices.
TEST(DecodeTest, ReaderTooSlowIsCutOff) {
  TestDecodeWorker worker({.blocks = 400, .context_length = 20000, .chunk = 1000});
  auto spec = MakeSpec(4, 15000);
  spec.set_logprobs(20);
  DecodeClient slow(*worker.stub), other(*worker.stub);
  slow.Reserve('a', spec, worker::v1::SOURCE_COMPUTED);
  other.Reserve('b', MakeSpec(10, 50), worker::v1::SOURCE_COMPUTED);
  EXPECT_EQ(other.Rest().size(), 52);
  EXPECT_TRUE(other.Finish().ok());
  EXPECT_TRUE(worker.engine().WaitUntilFree()) << "the slow stream still holds its blocks";
  const auto events = slow.Rest();
  EXPECT_LT(events.size(), 15001);
  EXPECT_FALSE(slow.Finish().ok());
}

TEST(DecodeTest, CommandsOutOfOrder) {
  TestDecodeWorker worker;
  const auto status_of = [&](const std::vector<DecodeRequest>& requests) {
    DecodeClient client(*worker.stub);
    for (const DecodeRequest& request : requests) {
      if (!client.Write(request)) break;
    }
    client.HalfClose();
    return client.Finish().error_code();
  };
  DecodeRequest empty, attempt, finish, move, reserve;
  attempt.mutable_attempt()->set_attempt(2);
  attempt.mutable_attempt()->set_sender_instance("p");
  finish.mutable_finish();
  move.mutable_move_to();
  reserve.mutable_reserve()->set_handoff_id(HandoffId('a'));
  *reserve.mutable_reserve()->mutable_spec() = MakeSpec(10, 1000);
  reserve.mutable_reserve()->set_source(worker::v1::SOURCE_COMPUTED);
  EXPECT_EQ(status_of({}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of({empty}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of({attempt}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of({finish}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of({reserve, reserve}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of({reserve, attempt}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of({reserve, move}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(worker.engine().WaitUntilFree());
}

TEST(DecodeTest, BadReservations) {
  TestDecodeWorker worker;
  const auto status_of = [&](auto change) {
    DecodeRequest request;
    worker::v1::Reserve& reserve = *request.mutable_reserve();
    reserve.set_handoff_id(HandoffId('a'));
    *reserve.mutable_spec() = MakeSpec(10, 10);
    reserve.set_source(worker::v1::SOURCE_RECEIVED);
    reserve.set_sender_instance("prefill-1");
    change(reserve);
    DecodeClient client(*worker.stub);
    client.Write(request);
    return client.Finish().error_code();
  };
  EXPECT_EQ(status_of([](auto& r) { r.set_handoff_id("short"); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of([](auto& r) { r.set_source(worker::v1::SOURCE_UNSPECIFIED); }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of([](auto& r) { r.set_source(static_cast<worker::v1::Source>(99)); }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of([](auto& r) { r.clear_sender_instance(); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of([](auto& r) { r.set_sender_instance(std::string(257, 'x')); }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of([](auto& r) { r.clear_spec(); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of([](auto& r) { r.mutable_spec()->set_token_ids(0, 300); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status_of([](auto& r) { r.mutable_spec()->set_max_tokens(1u << 31); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(worker.engine().WaitUntilFree());
  EXPECT_TRUE(worker.calls().WaitUntilIdle(absl::Seconds(10)));
}

TEST(DecodeTest, HandoffIdInUseIsRefused) {
  TestDecodeWorker worker;
  DecodeClient first(*worker.stub), second(*worker.stub);
  first.Reserve('a', MakeSpec(10, 5), worker::v1::SOURCE_RECEIVED);
  ASSERT_TRUE(first.Next()->has_reserved());
  second.Reserve('a', MakeSpec(10, 5), worker::v1::SOURCE_RECEIVED);
  EXPECT_EQ(second.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(worker.engine().referenced(), 1);
}

TEST(DecodeTest, ShutdownEndsWhatIsLive) {
  auto worker = std::make_unique<TestDecodeWorker>();
  worker->engine().Allow(3);
  DecodeClient running(*worker->stub), waiting(*worker->stub);
  running.Reserve('a', MakeSpec(10, 500), worker::v1::SOURCE_COMPUTED);
  waiting.Reserve('b', MakeSpec(10, 500), worker::v1::SOURCE_RECEIVED);
  ASSERT_TRUE(running.Next()->has_reserved());
  ASSERT_TRUE(waiting.Next()->has_reserved());
  worker->server().Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(running.Finish().ok());
  EXPECT_FALSE(waiting.Finish().ok());
  EXPECT_TRUE(worker->engine().WaitUntilFree());
}

}  // namespace
}  // namespace kvrelay::decode_worker
