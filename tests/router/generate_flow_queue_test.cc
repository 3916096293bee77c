// Requests that find no room: they wait in order, hold nothing meanwhile, and end with a clear refusal when it takes
// too long.
#include "tests/router/flow_fixture.h"

namespace kvrelay::router {
namespace {

using ::testing::HasSubstr;

const absl::Status kFull = absl::ResourceExhaustedError("no blocks");

TEST(FlowQueue, WaitsForRoomAndHoldsNothing) {
  for (const auto execution : {v1::EXECUTION_SPLIT, v1::EXECUTION_LOCAL}) {
    FlowFixture f;
    f.AddWorkers(1, 2);
    f.request.execution = execution;
    f.cluster.faults["d1"].refuse = f.cluster.faults["d2"].refuse = kFull;
    f.Run();
    EXPECT_EQ(f.flow->state(), FlowState::kQueued);
    EXPECT_EQ(f.cluster.open_calls(), 0u);
    EXPECT_EQ(f.cluster.opened.size(), 2u) << "each was asked once";
    f.flow->OnTick();
    EXPECT_EQ(f.cluster.opened.size(), 2u) << "not at once again";
    f.cluster.faults["d2"].refuse = absl::OkStatus();
    f.clock.now += absl::Seconds(1);
    f.flow->OnTick();
    f.cluster.RunAll();
    f.CheckSuccess();
    EXPECT_EQ(f.admission.size(), 0u);
    EXPECT_GE(absl::ToDoubleSeconds(absl::Seconds(f.sink.Finished()->timings().router_queue().seconds())), 1.0);
  }
}

TEST(FlowQueue, AFullPrefillWorkerIsWaitedForWithoutHoldingDecodeBlocks) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  f.request.execution = v1::EXECUTION_SPLIT;
  f.cluster.faults["p1"].refuse = kFull;
  f.Run();
  EXPECT_EQ(f.flow->state(), FlowState::kQueued);
  EXPECT_EQ(f.cluster.open_calls(), 0u);
  f.cluster.faults["p1"].refuse = absl::OkStatus();
  f.flow->OnWake();
  f.cluster.RunAll();
  f.CheckSuccess();
}

TEST(FlowQueue, OfManyFullWorkersOnlySomeAreAsked) {
  for (const bool prefill : {false, true}) {
    FlowFixture f;
    f.AddWorkers(prefill ? 12 : 1, prefill ? 1 : 12);
    f.request.execution = v1::EXECUTION_SPLIT;
    for (int i = 1; i <= 12; ++i) f.cluster.faults[(prefill ? "p" : "d") + std::to_string(i)].refuse = kFull;
    f.Run();
    EXPECT_EQ(f.flow->state(), FlowState::kQueued);
    EXPECT_EQ(f.cluster.opened.size(), 8u + prefill);
  }
}

TEST(FlowQueue, TooLongAWaitIsRefusedWithTheCause) {
  FlowFixture f;
  f.AddWorkers(0, 1);
  f.cluster.faults["d1"].refuse = kFull;
  f.Run();
  f.clock.now += absl::Seconds(31);
  f.flow->OnTick();
  EXPECT_TRUE(absl::IsResourceExhausted(f.sink.status)) << f.sink.status;
  EXPECT_THAT(std::string(f.sink.status.message()), HasSubstr("no blocks"));
  EXPECT_EQ(f.sink.ends, 1);
  EXPECT_EQ(f.admission.size(), 0u);
}

TEST(FlowQueue, ALostStreamWaitsForRoomToo) {
  FlowFixture f;
  f.AddWorkers(0, 2);
  f.Start();
  while (f.sink.Ids().size() < 3) f.cluster.Step();
  f.cluster.faults["d2"].refuse = kFull;
  f.cluster.Kill("d1");
  f.cluster.RunAll();
  EXPECT_EQ(f.flow->state(), FlowState::kQueued);
  f.cluster.faults["d2"].refuse = absl::OkStatus();
  f.flow->OnWake();
  f.cluster.RunAll();
  f.CheckSuccess();
  EXPECT_EQ(f.sink.Finished()->replans(), 1u);
}

TEST(FlowQueue, AbortWhileWaitingLeavesTheQueue) {
  FlowFixture f;
  f.AddWorkers(0, 1);
  f.cluster.faults["d1"].refuse = kFull;
  f.Run();
  EXPECT_EQ(f.admission.size(), 1u);
  f.flow->Abort(absl::CancelledError("gone"));
  EXPECT_EQ(f.admission.size(), 0u);
  EXPECT_EQ(f.sink.ends, 1);
}

TEST(FlowQueue, OthersGoFirst) {
  FlowFixture f;
  f.AddWorkers(0, 1);
  std::vector<AdmissionQueue::Ticket> earlier;
  for (size_t i = 0; i < AdmissionQueue::kTrying; ++i) {
    earlier.push_back(*f.admission.Enter({.arrival = f.clock.now - absl::Seconds(1), .tokens = 1}, [] {}));
    f.admission.OnRefused(earlier.back());
  }
  f.Run();
  EXPECT_TRUE(f.cluster.opened.empty());
  f.admission.Leave(earlier[0]);
  f.flow->OnWake();
  f.cluster.RunAll();
  f.CheckSuccess();
}

}  // namespace
}  // namespace kvrelay::router
