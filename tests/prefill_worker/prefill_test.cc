#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/rpc/duration.h"
#include "common/rpc/status_mapping.h"
#include "tests/worker/handoff_messages.h"
#include "tests/worker/test_client.h"
#include "tests/worker/test_worker.h"

namespace kvrelay::prefill_worker {
namespace {

using kvrelay::testing::DecodeClient;
using kvrelay::testing::FakeEngineOptions;
using kvrelay::testing::FakeNextToken;
using kvrelay::testing::HoldsFakeKv;
using kvrelay::testing::MakePrefill;
using kvrelay::testing::MakeSpec;
using kvrelay::testing::PrefillClient;
using kvrelay::testing::TestDecodeWorker;
using kvrelay::testing::TestPrefillWorker;
using worker::v1::PrefillRequest;

std::vector<int32_t> Tokens(const worker::v1::GenerationSpec& spec) {
  return {spec.token_ids().begin(), spec.token_ids().end()};
}

// Opens a reservation for KV and returns its stream.
std::unique_ptr<DecodeClient> Reserve(TestDecodeWorker& decode, char id, const worker::v1::GenerationSpec& spec) {
  auto client = std::make_unique<DecodeClient>(*decode.stub);
  EXPECT_TRUE(client->Reserve(id, spec, worker::v1::SOURCE_RECEIVED));
  const auto event = client->Next();
  EXPECT_TRUE(event.has_value() && event->has_reserved());
  return client;
}

TEST(PrefillTest, HandsOverTheSameBytes) {
  for (int length : {1, 63, 64, 65, 100, 128, 350}) {
    SCOPED_TRACE(length);
    TestDecodeWorker decode;
    TestPrefillWorker prefill;
    decode.engine().Allow(0);
    auto spec = MakeSpec(length, 4);
    spec.set_logprobs(3);
    auto stream = Reserve(decode, 'a', spec);
    auto cache = decode.engine().last_cache();
    PrefillClient job(*prefill.stub, MakePrefill(spec, 'a', 1, decode.address()));
    const auto selected = job.Next();
    ASSERT_TRUE(selected.has_value() && selected->has_selected());
    EXPECT_EQ(selected->selected().index(), 0);
    EXPECT_EQ(selected->selected().token_id(), FakeNextToken(Tokens(spec), 300));
    EXPECT_EQ(selected->selected().positions().computed(), length);
    const auto event = job.Next();
    ASSERT_TRUE(event.has_value() && event->has_done());
    const worker::v1::PrefillDone& done = event->done();
    EXPECT_TRUE(job.Finish().ok());
    EXPECT_FALSE(job.progress.empty());
    EXPECT_TRUE(job.progress.front().queued());
    EXPECT_EQ(job.progress.front().identity().instance(), "prefill-1");
    const uint64_t bytes = 3 * length * prefill.engine().kv_layout().PositionBytes();
    EXPECT_EQ(done.positions().computed(), length);
    EXPECT_EQ(done.positions().shipped(), length);
    EXPECT_EQ(done.bytes_shipped(), bytes);
    EXPECT_LT(done.bytes_before_last_layer(), bytes);
    EXPECT_LE(done.first_frame_layer(), 2);
    EXPECT_TRUE(HoldsFakeKv(*cache, Tokens(spec)));
    cache.reset();
    // The same token on the other stream, with its log-probabilities.
    const auto copy = stream->Next();
    ASSERT_TRUE(copy.has_value() && copy->has_selected());
    EXPECT_EQ(copy->selected().token_id(), selected->selected().token_id());
    EXPECT_EQ(copy->selected().logprob(), selected->selected().logprob());
    EXPECT_EQ(copy->selected().top_size(), 3);
    EXPECT_TRUE(prefill.engine().WaitUntilFree());
    decode.engine().Allow(INT64_MAX);
    EXPECT_EQ(stream->Rest().size(), 4);
    EXPECT_TRUE(decode.engine().WaitUntilFree());
  }
}

TEST(PrefillTest, FramesLeaveBeforeTheLastLayer) {
  TestDecodeWorker decode;
  TestPrefillWorker prefill;
  prefill.engine().Allow(5);  // 2 chunks of 100: all layers of the first, 2 of the last
  auto spec = MakeSpec(200, 4);
  spec.set_trace(true);
  auto stream = Reserve(decode, 'a', spec);
  const auto cache = decode.engine().last_cache();
  PrefillClient job(*prefill.stub, MakePrefill(spec, 'a', 1, decode.address()));
  // Everything but the last layer's blocks of the last chunk is at the receiver before that layer is computed.
  const std::vector<int32_t> tokens = Tokens(spec);
  ASSERT_TRUE(job.WaitForProgress([](const auto& p) { return p.computed() == 100; }));
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(job.WaitForProgress([](const auto&) { return true; }));
  prefill.engine().Allow(INT64_MAX);
  ASSERT_TRUE(job.Next()->has_selected());
  const auto event = job.Next();
  ASSERT_TRUE(event.has_value() && event->has_done());
  const worker::v1::PrefillDone& done = event->done();
  const uint64_t position_bytes = prefill.engine().kv_layout().PositionBytes();
  EXPECT_EQ(done.bytes_before_last_layer(), (3 * 64 + 2 * (200 - 64)) * position_bytes);
  EXPECT_EQ(done.bytes_shipped(), 3 * 200 * position_bytes);
  EXPECT_TRUE(HoldsFakeKv(*cache, tokens));
  // Block 0 of each layer goes out with the first chunk, what the second completes with the second.
  ASSERT_EQ(done.shipments_size(), 6);
  absl::Duration last = absl::ZeroDuration();
  for (int i = 0; i < 6; ++i) {
    const worker::v1::Shipment& shipment = done.shipments(i);
    EXPECT_EQ(shipment.layer(), i % 3);
    EXPECT_EQ(shipment.first_position(), i < 3 ? 0 : 64);
    EXPECT_EQ(shipment.end_position(), i < 3 ? 64 : 200);
    EXPECT_EQ(shipment.bytes(), (shipment.end_position() - shipment.first_position()) * position_bytes);
    EXPECT_GE(rpc::FromProto(shipment.start()), last);
    last = rpc::FromProto(shipment.start()) + rpc::FromProto(shipment.duration());
  }
}

TEST(PrefillTest, WithoutAHandoffOnlyTheTokenIsWanted) {
  TestPrefillWorker prefill;
  PrefillRequest request;
  *request.mutable_spec() = MakeSpec(150, 1);
  PrefillClient job(*prefill.stub, request);
  const auto selected = job.Next();
  ASSERT_TRUE(selected.has_value());
  EXPECT_EQ(selected->selected().end(), worker::v1::END_REASON_LENGTH);
  const auto done = job.Next();
  ASSERT_TRUE(done.has_value() && done->has_done());
  EXPECT_EQ(done->done().bytes_shipped(), 0);
  EXPECT_EQ(done->done().positions().shipped(), 0);
  EXPECT_EQ(done->done().positions().computed(), 150);
  EXPECT_FALSE(done->done().has_transfer());
  EXPECT_TRUE(job.Finish().ok());
  EXPECT_TRUE(prefill.engine().WaitUntilFree());
}

TEST(PrefillTest, HistoryIsPartOfTheJob) {
  TestDecodeWorker decode;
  TestPrefillWorker prefill;
  auto spec = MakeSpec(80, 30);
  spec.set_prompt_length(60);
  auto stream = Reserve(decode, 'a', spec);
  PrefillClient job(*prefill.stub, MakePrefill(spec, 'a', 1, decode.address()));
  EXPECT_EQ(job.Next()->selected().index(), 20);
  EXPECT_EQ(job.Next()->done().positions().shipped(), 80);
  const auto events = stream->Rest();
  ASSERT_EQ(events.size(), 11);
  EXPECT_EQ(events[0].selected().index(), 20);
  EXPECT_EQ(events[9].selected().index(), 29);
}

TEST(PrefillTest, SeveralJobsAtOnceDoNotMix) {
  TestDecodeWorker decode;
  TestPrefillWorker prefill;
  std::vector<std::unique_ptr<DecodeClient>> streams;
  std::vector<std::unique_ptr<PrefillClient>> jobs;
  std::vector<worker::v1::GenerationSpec> specs;
  for (int i = 0; i < 6; ++i) {
    specs.push_back(MakeSpec(130, 3, i % 3));  // each prompt twice
    streams.push_back(Reserve(decode, static_cast<char>('a' + i), specs[i]));
  }
  for (int i = 0; i < 6; ++i) {
    jobs.push_back(std::make_unique<PrefillClient>(
        *prefill.stub, MakePrefill(specs[i], static_cast<char>('a' + i), 1, decode.address())));
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(jobs[i]->Next()->selected().token_id(), FakeNextToken(Tokens(specs[i]), 300));
    EXPECT_TRUE(jobs[i]->Next()->has_done());
    EXPECT_TRUE(jobs[i]->Finish().ok());
    const auto events = streams[i]->Rest();
    ASSERT_EQ(events.size(), 4);
    EXPECT_EQ(events[0].selected().token_id(), FakeNextToken(Tokens(specs[i]), 300));
  }
  EXPECT_TRUE(prefill.engine().WaitUntilFree());
  EXPECT_TRUE(decode.engine().WaitUntilFree());
}

// The owner of the job ends at every unit of work: blocks on both sides go back, the reservation stays usable.
TEST(PrefillTest, CancelAtEveryStage) {
  TestDecodeWorker decode;
  TestPrefillWorker prefill;
  const auto spec = MakeSpec(150, 3);
  for (int units = 0; units <= 6; ++units) {
    SCOPED_TRACE(units);
    prefill.engine().Allow(units);
    auto stream = Reserve(decode, 'a', spec);
    {
      PrefillClient job(*prefill.stub, MakePrefill(spec, 'a', 1, decode.address()));
      ASSERT_TRUE(job.WaitForProgress([&](const auto& p) {
        return p.computed() == (units < 3 ? 0 : units < 6 ? 100 : 150);
      }));
      job.Cancel();
      EXPECT_EQ(job.Finish().error_code(), grpc::StatusCode::CANCELLED);
    }
    EXPECT_TRUE(prefill.engine().WaitUntilFree());
    EXPECT_TRUE(prefill.calls().WaitUntilIdle(absl::Seconds(10)));
    prefill.engine().Allow(INT64_MAX);
    ASSERT_TRUE(stream->Attempt(2, "prefill-1"));
    ASSERT_TRUE(stream->Next()->has_attempt_open());
    PrefillClient again(*prefill.stub, MakePrefill(spec, 'a', 2, decode.address()));
    ASSERT_TRUE(again.Next()->has_selected());
    EXPECT_TRUE(again.Next()->has_done());
    EXPECT_EQ(stream->Rest().size(), 4);
    EXPECT_TRUE(decode.engine().WaitUntilFree());
  }
}

TEST(PrefillTest, EndOfTheReservationEndsTheJob) {
  TestDecodeWorker decode;
  TestPrefillWorker prefill;
  for (int units : {0, 2, 4}) {
    SCOPED_TRACE(units);
    prefill.engine().Allow(units);
    auto stream = Reserve(decode, 'a', MakeSpec(150, 3));
    PrefillClient job(*prefill.stub, MakePrefill(MakeSpec(150, 3), 'a', 1, decode.address()));
    ASSERT_TRUE(job.WaitForProgress([&](const auto& p) { return p.computed() == (units < 3 ? 0 : 100); }));
    stream->Cancel();
    const grpc::Status status = job.Finish();
    EXPECT_THAT(status.error_code(), ::testing::AnyOf(grpc::StatusCode::CANCELLED, grpc::StatusCode::NOT_FOUND));
    EXPECT_TRUE(prefill.engine().WaitUntilFree());
    EXPECT_TRUE(decode.engine().WaitUntilFree());
  }
}

TEST(PrefillTest, ErrorsOfTheReceiverPassWithTheirCode) {
  TestDecodeWorker decode;
  const auto code_of = [&](TestPrefillWorker& prefill, const PrefillRequest& request) {
    PrefillClient job(*prefill.stub, request);
    const grpc::Status status = job.Finish();
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("decode-1 at " + decode.address()));
    EXPECT_TRUE(prefill.engine().WaitUntilFree());
    return status.error_code();
  };
  const auto spec = MakeSpec(100, 3);
  TestPrefillWorker prefill;
  EXPECT_EQ(code_of(prefill, MakePrefill(spec, 'x', 1, decode.address())), grpc::StatusCode::NOT_FOUND);
  auto stream = Reserve(decode, 'a', spec);
  EXPECT_EQ(code_of(prefill, MakePrefill(spec, 'a', 2, decode.address())), grpc::StatusCode::ABORTED);
  EXPECT_EQ(code_of(prefill, MakePrefill(MakeSpec(90, 3), 'a', 1, decode.address())),
            grpc::StatusCode::FAILED_PRECONDITION);
  TestPrefillWorker foreign({.numerics_id = "2-other"});
  foreign.context().identity.set_instance("prefill-1");
  auto second = Reserve(decode, 'b', spec);
  EXPECT_EQ(code_of(foreign, MakePrefill(spec, 'b', 1, decode.address())), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(PrefillTest, UnreachableReceiverIsNamed) {
  std::string address;
  {
    TestDecodeWorker gone;
    address = gone.address();
  }
  TestPrefillWorker prefill;
  prefill.engine().Allow(2);
  PrefillClient job(*prefill.stub, MakePrefill(MakeSpec(150, 3), 'a', 1, address));
  const grpc::Status status = job.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("decode-1 at " + address));
  EXPECT_TRUE(prefill.engine().WaitUntilFree());
}

TEST(PrefillTest, ReceiverThatDiesIsUnavailable) {
  auto decode = std::make_unique<TestDecodeWorker>();
  TestPrefillWorker prefill;
  prefill.engine().Allow(4);
  auto stream = Reserve(*decode, 'a', MakeSpec(150, 3));
  PrefillClient job(*prefill.stub, MakePrefill(MakeSpec(150, 3), 'a', 1, decode->address()));
  ASSERT_TRUE(job.WaitForProgress([](const auto& p) { return p.computed() == 100; }));
  decode->server().Shutdown(absl::ZeroDuration());
  EXPECT_THAT(job.Finish().error_code(), ::testing::AnyOf(grpc::StatusCode::ABORTED, grpc::StatusCode::CANCELLED));
  EXPECT_TRUE(prefill.engine().WaitUntilFree());
}

TEST(PrefillTest, NoRoomIsRefusedWithARetryDelay) {
  TestPrefillWorker prefill({.blocks = 2});
  PrefillRequest request;
  *request.mutable_spec() = MakeSpec(128, 1500);  // room for the prompt alone is taken
  PrefillClient fits(*prefill.stub, request);
  EXPECT_TRUE(fits.Finish().ok());
  EXPECT_TRUE(prefill.engine().WaitUntilFree());
  *request.mutable_spec() = MakeSpec(129, 1);
  PrefillClient refused(*prefill.stub, request);
  const grpc::Status status = refused.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(rpc::RetryDelay(rpc::FromGrpc(status)).has_value());
}

TEST(PrefillTest, BadRequests) {
  TestPrefillWorker prefill;
  const auto code_of = [&](auto change) {
    PrefillRequest request = MakePrefill(MakeSpec(10, 3), 'a', 1, "127.0.0.1:9");
    change(request);
    PrefillClient job(*prefill.stub, request);
    return job.Finish().error_code();
  };
  EXPECT_EQ(code_of([](auto& r) { r.clear_spec(); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](auto& r) { r.mutable_handoff()->set_handoff_id("x"); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](auto& r) { r.mutable_handoff()->set_attempt(0); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](auto& r) { r.mutable_handoff()->set_kv_address("nowhere"); }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](auto& r) { r.mutable_handoff()->set_kv_address("h:0"); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](auto& r) { r.set_first_position(10); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](auto& r) { r.set_first_position(UINT32_MAX); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](auto& r) { r.clear_handoff(), r.set_first_position(1); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](auto& r) { r.mutable_handoff()->set_decode_instance(std::string(300, 'x')); }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(prefill.engine().WaitUntilFree());
  EXPECT_TRUE(prefill.calls().WaitUntilIdle(absl::Seconds(10)));
}

}  // namespace
}  // namespace kvrelay::prefill_worker
