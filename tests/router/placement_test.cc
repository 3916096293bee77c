#include "router/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/fake_cluster.h"

namespace kvrelay::router {
namespace {

using ::testing::HasSubstr;

class PlacementTest : public testing::Test {
 protected:
  Worker& Add(v1::WorkerRole role, const std::string& instance) {
    workers_.push_back(FakeWorker(role, instance));
    return workers_.back();
  }
  Worker& Prefill(const std::string& instance) { return Add(v1::WORKER_ROLE_PREFILL, instance); }
  Worker& Decode(const std::string& instance) { return Add(v1::WORKER_ROLE_DECODE, instance); }
  absl::StatusOr<Plan> Run() { return Place(workers_, request_, avoided_); }

  std::vector<Worker> workers_;
  PlacementRequest request_{.to_prefill = 200};
  AvoidedWorkers avoided_;
};

TEST_F(PlacementTest, LeastLoadedWins) {
  Prefill("p1").status.mutable_load()->set_active_sessions(2);
  Prefill("p2").status.mutable_load()->set_active_sessions(1);
  Decode("d1").calls = 3;  // not yet in a report
  Decode("d2").status.mutable_load()->set_active_sessions(2);
  auto plan = Run();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->prefill->instance(), "p2");
  EXPECT_EQ(plan->decode->instance(), "d2");
  EXPECT_THAT(plan->reason, HasSubstr("least loaded of 2"));
}

TEST_F(PlacementTest, PrefillGoesWhereItIsDoneFirst) {
  request_.execution = v1::EXECUTION_SPLIT;
  Prefill("p1").status.mutable_load()->set_pending_prompt_tokens(1000);
  Worker& fast = Prefill("p2");
  fast.status.mutable_load()->set_pending_prompt_tokens(3000);
  fast.status.mutable_load()->set_prompt_tokens_per_second(4000);
  Decode("d1");
  EXPECT_EQ(Run()->prefill->instance(), "p2");  // 1.2 s against 0.8 s
  workers_[1].assigned_tokens = 6000;           // given to it since its report
  EXPECT_EQ(Run()->prefill->instance(), "p1");
  request_.to_prefill = 2000;
  request_.held[KeyOf(workers_[1])] = 1999;  // 3 s against 1.5 s
  EXPECT_EQ(Run()->prefill->instance(), "p2");
  request_.needs_decode = false;
  EXPECT_EQ(Run()->prefill->instance(), "p2");
}

TEST_F(PlacementTest, DecodeGoesWhereThePrefixIsUnlessThatIsBusy) {
  Prefill("p1");
  Decode("d1");
  Decode("d2").calls = 2;
  request_.held[KeyOf(workers_[2])] = 128;
  EXPECT_EQ(Run()->decode->instance(), "d2");
  workers_[2].calls = 3;
  EXPECT_EQ(Run()->decode->instance(), "d1");
  workers_[1].calls = 20;
  workers_[2].calls = 25;
  EXPECT_EQ(Run()->decode->instance(), "d2");
  workers_[2].calls = 26;
  EXPECT_EQ(Run()->decode->instance(), "d1");
}

TEST_F(PlacementTest, LocalWhereThatCostsLess) {
  Prefill("p1");
  Decode("d1");
  EXPECT_EQ(Run()->execution, v1::EXECUTION_SPLIT);
  request_.held[KeyOf(workers_[1])] = 192;  // 8 positions are left, 16 ms for two; 205 ms on p1
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Run()->execution, v1::EXECUTION_LOCAL);
  EXPECT_THAT(Run()->reason, HasSubstr("local costs less: prefill on d1 8ms for each of 2, on p1 with handoff 205ms"));
  workers_[1].calls = 30;  // streams that would all wait
  EXPECT_EQ(Run()->execution, v1::EXECUTION_SPLIT);
  workers_[0].assigned_tokens = 500;  // but not as long as for that queue
  EXPECT_EQ(Run()->execution, v1::EXECUTION_LOCAL);
  request_.execution = v1::EXECUTION_SPLIT;
  EXPECT_EQ(Run()->execution, v1::EXECUTION_SPLIT);
  request_ = {.to_prefill = 2};
  workers_[0].assigned_tokens = 0;
  workers_[1].calls = 0;
  EXPECT_EQ(Run()->execution, v1::EXECUTION_LOCAL);
  request_.handoff = absl::ZeroDuration();
  EXPECT_EQ(Run()->execution, v1::EXECUTION_SPLIT);
}

TEST_F(PlacementTest, WorkersWithRoomComeFirst) {
  Prefill("p1");
  for (const char* instance : {"d1", "d2"}) {
    Decode(instance).status.mutable_load()->set_kv_blocks_total(10);
  }
  workers_[1].status.mutable_load()->set_kv_blocks_referenced(8);
  workers_[2].calls = 9;
  request_.tokens = 128;
  EXPECT_EQ(Run()->decode->instance(), "d1");
  request_.tokens = 129;
  EXPECT_EQ(Run()->decode->instance(), "d2");
  workers_[2].status.mutable_load()->set_kv_blocks_referenced(9);
  EXPECT_EQ(Run()->decode->instance(), "d1");
}

TEST_F(PlacementTest, TiesGoToTheLessUsed) {
  Decode("d1").calls_total = 5;
  Decode("d2").calls_total = 4;
  EXPECT_EQ(Run()->decode->instance(), "d2");
}

TEST_F(PlacementTest, PairsHaveOneNumericsId) {
  Prefill("p1").status.mutable_identity()->set_numerics_id("n2");
  Decode("d1");
  Decode("d2").status.mutable_identity()->set_numerics_id("n2");
  workers_.back().calls = 100;  // the only one that fits, however loaded
  EXPECT_EQ(Run()->decode->instance(), "d2");
  request_.numerics_id = "n1";
  auto local = Run();
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(local->execution, v1::EXECUTION_LOCAL);
  EXPECT_EQ(local->decode->instance(), "d1");
}

TEST_F(PlacementTest, NoCommonNumericsIsSaid) {
  Prefill("p1").status.mutable_identity()->set_numerics_id("n2");
  Decode("d1");
  request_.execution = v1::EXECUTION_SPLIT;
  EXPECT_TRUE(absl::IsFailedPrecondition(Run().status())) << Run().status();
  request_.execution = v1::EXECUTION_UNSPECIFIED;
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(Run()->reason, HasSubstr("numerics"));
}

TEST_F(PlacementTest, ForeignModelIsFailedPrecondition) {
  Worker& worker = Decode("d1");
  worker.ready = false;
  worker.foreign_model = true;
  worker.problem = "two models in one service";
  auto plan = Run();
  EXPECT_TRUE(absl::IsFailedPrecondition(plan.status())) << plan.status();
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("two models"));
}

TEST_F(PlacementTest, ShortContextIsLeftOut) {
  Decode("d1").status.set_context_length(100);
  Decode("d2").calls = 9;
  request_.tokens = 101;
  EXPECT_EQ(Run()->decode->instance(), "d2");
  request_.tokens = kFakeContext + 1;
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("4097"));
}

TEST_F(PlacementTest, AvoidedWorkersComeLastAndLostOnesNever) {
  Decode("d1");
  Decode("d2").calls = 9;
  avoided_.Add(workers_[0], AvoidedWorkers::kUnlucky);
  EXPECT_EQ(Run()->decode->instance(), "d2");
  avoided_.Add(workers_[1], AvoidedWorkers::kLost);
  EXPECT_EQ(Run()->decode->instance(), "d1");
  avoided_.Add(workers_[0], AvoidedWorkers::kLost);
  EXPECT_TRUE(absl::IsUnavailable(Run().status()));
  workers_[0].status.mutable_identity()->set_epoch(2);  // restarted
  EXPECT_EQ(Run()->decode->instance(), "d1");
}

TEST_F(PlacementTest, ManyProblemsMakeAShortMessage) {
  for (int i = 0; i < 1000; ++i) Decode("d" + std::to_string(i)).ready = false;
  EXPECT_LT(Run().status().message().size(), 400u);
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("996 more"));
}

}  // namespace
}  // namespace kvrelay::router
