#include "common/worker/worker_service.h"

#include <gtest/gtest.h>

#include "tests/worker/test_client.h"
#include "tests/worker/test_worker.h"

namespace kvrelay::worker {
namespace {

using v1::WatchStatusResponse;

TEST(WorkerServiceTest, StatusStreamsWithAMovingBeat) {
  kvrelay::testing::TestDecodeWorker worker;
  auto stub = v1::WorkerService::NewStub(rpc::NewChannel(worker.address()));
  grpc::ClientContext context;
  kvrelay::testing::SetTestDeadline(context);
  auto reader = stub->WatchStatus(&context, {});
  WatchStatusResponse status;
  ASSERT_TRUE(reader->Read(&status));
  EXPECT_EQ(status.identity().instance(), "decode-1");
  EXPECT_EQ(status.identity().epoch(), 42);
  EXPECT_EQ(status.role(), "decode");
  EXPECT_EQ(status.context_length(), 2000);
  EXPECT_EQ(status.kv_address(), worker.address());
  EXPECT_EQ(status.load().kv_blocks_total(), 64);
  EXPECT_FALSE(status.draining());
  const uint64_t first = status.load().beat();
  while (status.load().beat() <= first) ASSERT_TRUE(reader->Read(&status));
  worker.calls().Drain();
  while (!status.draining()) ASSERT_TRUE(reader->Read(&status));
}

TEST(WorkerServiceTest, DrainingRefusesNewWork) {
  kvrelay::testing::TestDecodeWorker decode;
  kvrelay::testing::TestPrefillWorker prefill;
  decode.calls().Drain();
  prefill.calls().Drain();
  kvrelay::testing::DecodeClient decode_client(*decode.stub);
  decode_client.Reserve('a', kvrelay::testing::MakeSpec(5, 2), v1::SOURCE_COMPUTED);
  EXPECT_EQ(decode_client.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::PrefillRequest request;
  *request.mutable_spec() = kvrelay::testing::MakeSpec(5, 2);
  kvrelay::testing::PrefillClient prefill_client(*prefill.stub, request);
  EXPECT_EQ(prefill_client.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(decode.calls().WaitUntilIdle(absl::Seconds(10)));
}

}  // namespace
}  // namespace kvrelay::worker
