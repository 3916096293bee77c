// Faults of workers: whatever dies, refuses, hangs or lies, the stream is exact or ends with the right code.
#include "tests/router/flow_fixture.h"

namespace kvrelay::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Kills `victim` after every possible number of events, in several interleavings.
void KillEverywhere(const std::string& victim, v1::Execution execution,
                    const std::function<void(FlowFixture&)>& check) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (int events = 0;; ++events) {
      SCOPED_TRACE(testing::Message() << victim << " dies after " << events << " events, seed " << seed);
      FlowFixture f(seed);
      f.AddWorkers(2, 2);
      f.request.execution = execution;
      f.Start();
      int done = 0;
      while (done < events && f.cluster.Step()) ++done;
      if (f.flow->state() == FlowState::kDone) break;
      f.cluster.Kill(victim);
      f.cluster.RunAll();
      check(f);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(FlowFailures, PrefillWorkerDiesAnywhere) {
  KillEverywhere("p1", v1::EXECUTION_SPLIT, [](FlowFixture& f) {
    f.CheckSuccess();
    EXPECT_EQ(f.sink.Ids().size(), 6u);
    EXPECT_EQ(f.sink.Finished()->replans(), 0u);
  });
}

TEST(FlowFailures, DecodeWorkerDiesAnywhere) {
  for (const auto execution : {v1::EXECUTION_SPLIT, v1::EXECUTION_LOCAL, v1::EXECUTION_NO_CACHE}) {
    KillEverywhere("d1", execution, [](FlowFixture& f) {
      f.CheckSuccess();
      EXPECT_EQ(f.sink.Ids().size(), 6u);
      EXPECT_LE(f.sink.Finished()->replans(), 1u);
    });
  }
}

TEST(FlowFailures, ReplanCountsWhatItRecomputes) {
  FlowFixture f;
  f.AddWorkers(1, 2);
  f.request.execution = v1::EXECUTION_LOCAL;
  f.Start();
  while (f.sink.Ids().size() < 3) f.cluster.Step();
  f.cluster.Kill("d1");
  f.cluster.RunAll();
  f.CheckSuccess();
  EXPECT_EQ(f.sink.Finished()->replans(), 1u);
  // d1 had computed positions 0..6; d2 computes 0..7 for the next token, of which 7 is new.
  const auto& total = f.sink.responses.back().positions();
  EXPECT_EQ(total.recomputed(), 7u);
  EXPECT_EQ(total.computed(), 7u + 10);
  EXPECT_EQ(total.discarded(), 7u);
  const auto runs = f.sink.Runs();
  ASSERT_EQ(runs.size(), 6u);
  EXPECT_EQ(runs[3].instance(), "d2");
  EXPECT_EQ(runs[3].recomputed(), 7u);
  EXPECT_EQ(runs[3].computed(), 1u);
}

TEST(FlowFailures, PrefillRetriesCarryTheSameTokensAndCount) {
  for (const bool after_token : {false, true}) {
    FlowFixture f;
    f.AddWorkers(2, 1);
    auto& fault = f.cluster.faults["p1"];
    (after_token ? fault.after_token : fault.before_token) = absl::DataLossError("flipped byte");
    f.Run();
    f.CheckSuccess();
    EXPECT_EQ(f.sink.Finished()->attempts(), 2u);
    EXPECT_THAT(f.cluster.opened, ElementsAre("d1", "p1", "p2"));
    ASSERT_EQ(f.cluster.decode_requests.size(), 2u);
    EXPECT_EQ(f.cluster.decode_requests[1].attempt().attempt(), 2u);
    EXPECT_EQ(f.cluster.decode_requests[1].attempt().sender_instance(), "p2");
    EXPECT_EQ(f.cluster.prefill_requests[1].handoff().attempt(), 2u);
    EXPECT_EQ(f.sink.responses.back().positions().recomputed(), after_token ? 5u : 2u);
  }
}

TEST(FlowFailures, TheOnlyPrefillWorkerIsTriedAgainUnlessItIsGone) {
  FlowFixture corrupt;
  corrupt.AddWorkers(1, 1);
  corrupt.request.execution = v1::EXECUTION_SPLIT;
  corrupt.cluster.faults["p1"].before_token = absl::DataLossError("flipped byte");
  corrupt.Run();
  EXPECT_TRUE(absl::IsDataLoss(corrupt.sink.status)) << corrupt.sink.status;
  EXPECT_THAT(corrupt.cluster.opened, ElementsAre("d1", "p1", "p1", "p1"));

  FlowFixture gone;
  gone.AddWorkers(1, 1);
  gone.request.execution = v1::EXECUTION_SPLIT;
  gone.cluster.faults["p1"].before_token = absl::UnavailableError("no route");
  gone.Run();
  EXPECT_TRUE(absl::IsUnavailable(gone.sink.status)) << gone.sink.status;
  EXPECT_THAT(std::string(gone.sink.status.message()), HasSubstr("no other prefill worker"));
  EXPECT_THAT(gone.cluster.opened, ElementsAre("d1", "p1"));
}

TEST(FlowFailures, WithoutAnyPrefillWorkerLeftTheDefaultGoesOnLocally) {
  for (const bool after_token : {false, true}) {
    FlowFixture f;
    f.AddWorkers(1, 1);
    auto& fault = f.cluster.faults["p1"];
    (after_token ? fault.after_token : fault.before_token) = absl::UnavailableError("no route");
    f.Run();
    f.CheckSuccess();
    EXPECT_EQ(f.sink.Ids().size(), 6u);
    EXPECT_EQ(f.sink.Finished()->replans(), 1u);
    EXPECT_EQ(f.cluster.decode_requests.back().reserve().source(), wire::SOURCE_COMPUTED);
  }
}

TEST(FlowFailures, AfterTwoPrefillFailuresAnotherDecodeWorkerIsTriedToo) {
  FlowFixture f;
  f.AddWorkers(3, 2);
  for (const char* p : {"p1", "p2"}) f.cluster.faults[p].after_token = absl::UnavailableError("link to d1 is cut");
  f.Run();
  f.CheckSuccess();
  EXPECT_THAT(f.cluster.opened, ElementsAre("d1", "p1", "p2", "d2", "p3"));
  EXPECT_EQ(f.sink.Finished()->attempts(), 3u);
  EXPECT_EQ(f.sink.Finished()->replans(), 1u);
}

TEST(FlowFailures, LostReceiptIsNoFailure) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    FlowFixture f(seed);
    f.AddWorkers(2, 1);
    f.cluster.faults["p1"].loses_receipt = true;
    f.Run();
    f.CheckSuccess();
    EXPECT_EQ(f.sink.Finished()->attempts(), 1u);  // the decode worker answers Committed
    EXPECT_EQ(f.sink.Finished()->replans(), 0u);
  }
}

TEST(FlowFailures, RefusalsGoToEveryDecodeWorkerOnce) {
  FlowFixture one_full, all_full;
  for (FlowFixture* f : {&one_full, &all_full}) {
    f->AddWorkers(1, 3);
    f->cluster.faults["d1"].refuse = absl::ResourceExhaustedError("no blocks");
  }
  all_full.cluster.faults["d2"].refuse = all_full.cluster.faults["d3"].refuse =
      absl::ResourceExhaustedError("no blocks");
  one_full.Run();
  all_full.Run();
  one_full.CheckSuccess();
  EXPECT_EQ(one_full.sink.Started()->placement().decode_instance(), "d2");
  EXPECT_EQ(one_full.sink.Finished()->replans(), 0u);
  EXPECT_EQ(all_full.flow->state(), FlowState::kQueued);
  EXPECT_THAT(all_full.cluster.opened, ElementsAre("d1", "d2", "d3"));
  EXPECT_TRUE(all_full.sink.responses.empty());
}

TEST(FlowFailures, RefusalsGoToEveryPrefillWorkerOnce) {
  FlowFixture f;
  f.AddWorkers(5, 1);
  for (const char* p : {"p1", "p2", "p3", "p4", "p5"})
    f.cluster.faults[p].refuse = absl::ResourceExhaustedError("queue full");
  f.Run();
  EXPECT_EQ(f.flow->state(), FlowState::kQueued);
  EXPECT_THAT(f.cluster.opened, ElementsAre("d1", "p1", "p2", "p3", "p4", "p5"));
}

TEST(FlowFailures, ErrorsThatWouldComeAgainAreNotRepeated) {
  FlowFixture f;
  f.AddWorkers(2, 2);
  f.cluster.faults["p1"].before_token = absl::InternalError("non-finite logit in layer 3 at position 2");
  f.Run();
  EXPECT_TRUE(absl::IsInternal(f.sink.status));
  EXPECT_THAT(std::string(f.sink.status.message()), HasSubstr("layer 3 at position 2"));
  EXPECT_THAT(f.cluster.opened, ElementsAre("d1", "p1"));
}

TEST(FlowFailures, ReplansWithoutProgressAreLimited) {
  FlowFixture f;
  f.AddWorkers(0, 9);
  f.Start();
  for (int i = 1; i <= 9; ++i) {
    f.cluster.StepRole(v1::WORKER_ROLE_DECODE);  // Reserved
    f.cluster.Kill("d" + std::to_string(i));
    f.cluster.StepRole(v1::WORKER_ROLE_DECODE);
  }
  f.cluster.RunAll();
  EXPECT_TRUE(absl::IsUnavailable(f.sink.status)) << f.sink.status;
  EXPECT_EQ(f.cluster.opened.size(), 4u);
}

TEST(FlowFailures, AStreamThatGetsOnIsPlannedAnewAsOftenAsNeeded) {
  FlowFixture f;
  f.AddWorkers(0, 9);
  f.request.spec.set_max_tokens(9);
  f.Start();
  for (int i = 1; i <= 8; ++i) {
    const size_t had = f.sink.Ids().size();
    while (f.sink.Ids().size() == had && f.cluster.Step()) {
    }
    f.cluster.Kill("d" + std::to_string(i));
  }
  f.cluster.RunAll();
  f.CheckSuccess();
  EXPECT_EQ(f.sink.Finished()->replans(), 8u);
}

TEST(FlowFailures, AnotherProcessAtTheSameAddressIsNotUsed) {
  FlowFixture f;
  f.AddWorkers(2, 2);
  f.cluster.faults["d1"].other_instance = "stranger";
  f.cluster.faults["p1"].other_instance = "stranger";
  f.Start();
  while (f.cluster.prefill_requests.empty()) f.cluster.StepRole(v1::WORKER_ROLE_DECODE);
  f.cluster.StepRole(v1::WORKER_ROLE_PREFILL);  // before its token is known to be published
  f.cluster.RunAll();
  f.CheckSuccess();
  EXPECT_THAT(f.cluster.opened, ElementsAre("d1", "d2", "p1", "p2"));
}

TEST(FlowFailures, SilentWorkersAreGivenUp) {
  for (const char* silent : {"p1", "d1"}) {
    FlowFixture f;
    f.AddWorkers(2, 2);
    f.cluster.faults[silent].silent = true;
    f.Start();
    f.cluster.RunAll();
    f.flow->OnTick();
    EXPECT_EQ(f.sink.ends, 0);
    f.Pass(absl::Seconds(6));
    f.cluster.RunAll();
    f.CheckSuccess();
  }
}

TEST(FlowFailures, APauseOfTheRouterItselfIsNoSilenceOfWorkers) {
  FlowFixture f;
  f.AddWorkers(2, 1);
  f.Start();
  f.cluster.StepRole(v1::WORKER_ROLE_DECODE);
  f.flow->OnTick();
  f.clock.now += absl::Seconds(60);  // suspended
  f.flow->OnTick();
  EXPECT_EQ(f.flow->state(), FlowState::kPrefilling);
  EXPECT_EQ(f.cluster.prefill_requests.size(), 1u);
  f.Pass(absl::Seconds(6));
  EXPECT_EQ(f.flow->state(), FlowState::kOpeningAttempt) << "silence after it counts";
}

TEST(FlowFailures, ABeatThatStandsStillIsNoSignOfLife) {
  FlowFixture f;
  f.AddWorkers(2, 1);
  f.Start();
  f.cluster.StepRole(v1::WORKER_ROLE_DECODE);
  wire::PrefillResponse progress;
  *progress.mutable_progress()->mutable_identity() = f.cluster.workers[0].status.identity();
  for (uint64_t beat : {1, 2, 3}) {
    progress.mutable_progress()->set_beat(beat);
    f.flow->OnPrefill(2, progress);
    f.Pass(absl::Seconds(4));
    EXPECT_EQ(f.flow->state(), FlowState::kPrefilling);
  }
  f.flow->OnPrefill(2, progress);  // beat 3 again
  f.Pass(absl::Seconds(2));
  EXPECT_EQ(f.flow->state(), FlowState::kOpeningAttempt);
}

TEST(FlowFailures, WorkersThatTheDirectoryCallsLostAreGivenUp) {
  FlowFixture f;
  f.AddWorkers(1, 2);
  f.Start();
  while (f.sink.Ids().size() < 3) f.cluster.Step();
  f.cluster.lost.insert("d1");
  f.flow->OnTick();
  f.cluster.RunAll();
  f.CheckSuccess();
  EXPECT_EQ(f.sink.Finished()->replans(), 1u);
}

TEST(FlowFailures, TheEndWaitsForLastWordsOnlySoLong) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  f.Start();
  while (f.flow->state() != FlowState::kFinishing) f.cluster.Step();
  f.Pass(absl::Seconds(6));
  f.CheckSuccess();
}

TEST(FlowFailures, NoWorkersAtAll) {
  FlowFixture f;
  f.Run();
  EXPECT_TRUE(absl::IsUnavailable(f.sink.status)) << f.sink.status;
}

}  // namespace
}  // namespace kvrelay::router
