// The ways of a request that goes well, and the ways in which a worker or a client may end it.
#include "router/generate_flow.h"

#include "common/rpc/duration.h"
#include "tests/router/flow_fixture.h"

namespace kvrelay::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GenerateFlow, SplitShipsThePromptAndDecodesTheRest) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  f.Run();
  f.CheckSuccess();
  EXPECT_EQ(f.sink.Ids().size(), 6u);
  const v1::Placement& placement = f.sink.Started()->placement();
  EXPECT_EQ(placement.execution(), v1::EXECUTION_SPLIT);
  EXPECT_EQ(placement.prefill_instance(), "p1");
  EXPECT_EQ(placement.decode_instance(), "d1");
  EXPECT_THAT(f.cluster.opened, ElementsAre("d1", "p1"));  // decode first
  const v1::PositionAccounting& last = f.sink.responses.back().positions();
  EXPECT_EQ(last.received(), 5u);
  EXPECT_EQ(last.shipped(), 5u);
  EXPECT_EQ(last.computed(), 10u);
  EXPECT_EQ(last.kv_ready(), 10u);
  EXPECT_EQ(last.recomputed(), 0u);
  const v1::Finished& finished = *f.sink.Finished();
  EXPECT_EQ(finished.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(finished.kv_bytes_shipped(), 500u);
  EXPECT_EQ(finished.attempts(), 1u);
  EXPECT_EQ(finished.replans(), 0u);
  EXPECT_EQ(finished.timings().prefill().seconds(), 2);
  ASSERT_EQ(finished.workers_size(), 2);
  EXPECT_EQ(finished.workers(0).instance(), "d1");
  EXPECT_EQ(finished.workers(0).positions().computed(), 5u);
  EXPECT_EQ(finished.workers(0).positions().selected(), 5u);
  EXPECT_EQ(finished.workers(1).positions().selected(), 1u);
  const auto runs = f.sink.Runs();
  ASSERT_EQ(runs.size(), 6u);
  EXPECT_EQ(runs[0].instance(), "p1");
  EXPECT_EQ(runs[0].bytes_shipped(), 500u);
  EXPECT_EQ(runs[1].instance(), "d1");
  EXPECT_EQ(runs[1].bytes_shipped(), 0u);
  ASSERT_EQ(runs[0].shipments_size(), 1);
  EXPECT_EQ(runs[0].shipments(0).layer(), 1u);
  EXPECT_EQ(rpc::FromProto(runs[0].shipments(0).start()) - rpc::FromProto(runs[0].start()), absl::Seconds(1));
  EXPECT_EQ(runs[1].shipments_size(), 0);
}

TEST(GenerateFlow, TokenZeroInAnyOrderGivesOneStream) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    FlowFixture f(seed);
    f.AddWorkers(1, 1);
    f.Run();
    f.CheckSuccess();
    EXPECT_EQ(f.sink.Ids().size(), 6u);
    EXPECT_EQ(f.sink.Runs().size(), 6u);
  }
}

TEST(GenerateFlow, DecodeCopyFirst) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  f.Start();
  f.cluster.StepRole(v1::WORKER_ROLE_DECODE);  // Reserved
  ASSERT_EQ(f.flow->state(), FlowState::kPrefilling);
  f.cluster.StepRole(v1::WORKER_ROLE_DECODE);  // token 0
  EXPECT_EQ(f.flow->state(), FlowState::kDecoding);
  EXPECT_EQ(f.sink.Ids().size(), 1u);
  while (f.cluster.StepRole(v1::WORKER_ROLE_DECODE)) {
  }
  EXPECT_EQ(f.flow->state(), FlowState::kFinishing);  // the prefill worker's last word is missing
  EXPECT_TRUE(f.sink.Runs().empty());                 // and so is the first run
  f.cluster.RunAll();
  f.CheckSuccess();
  EXPECT_EQ(f.sink.Runs().front().instance(), "p1");
}

TEST(GenerateFlow, PrefillCopyFirst) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  f.Start();
  f.cluster.StepRole(v1::WORKER_ROLE_DECODE);
  for (int i = 0; i < 3; ++i) f.cluster.StepRole(v1::WORKER_ROLE_PREFILL);
  EXPECT_EQ(f.sink.Ids().size(), 1u);
  EXPECT_EQ(f.flow->state(), FlowState::kPrefilling);
  EXPECT_EQ(f.sink.responses.back().positions().received(), 0u);  // the prefill worker holds the KV
  EXPECT_EQ(f.sink.responses.back().positions().kv_ready(), 5u);
  f.cluster.StepRole(v1::WORKER_ROLE_PREFILL);  // PrefillDone
  EXPECT_EQ(f.flow->state(), FlowState::kDecoding);
  f.cluster.RunAll();
  f.CheckSuccess();
}

TEST(GenerateFlow, DifferentTokenZeroIsDataLoss) {
  for (const char* liar : {"p1", "d1"}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      FlowFixture f(seed);
      f.AddWorkers(1, 1);
      f.cluster.faults[liar].wrong_token_by = 1;
      f.Run();
      EXPECT_TRUE(absl::IsDataLoss(f.sink.status)) << f.sink.status;
      EXPECT_EQ(f.cluster.open_calls(), 0u);
    }
  }
}

TEST(GenerateFlow, OneTokenNeedsNoDecodeWorker) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  f.request.spec.set_max_tokens(1);
  f.Run();
  f.CheckSuccess();
  EXPECT_THAT(f.cluster.opened, ElementsAre("p1"));
  EXPECT_FALSE(f.cluster.prefill_requests[0].has_handoff());
  EXPECT_EQ(f.sink.Started()->placement().decode_instance(), "");
  EXPECT_EQ(f.sink.Started()->placement().execution(), v1::EXECUTION_SPLIT);
  EXPECT_EQ(f.sink.responses.back().positions().received(), 0u);
  EXPECT_EQ(f.sink.Finished()->workers_size(), 1);
  EXPECT_EQ(f.sink.Finished()->kv_bytes_shipped(), 0u);
}

TEST(GenerateFlow, LocalAndNoCacheGiveTheSameTokens) {
  FlowFixture local, no_cache;
  for (FlowFixture* f : {&local, &no_cache}) f->AddWorkers(1, 1);
  local.request.execution = v1::EXECUTION_LOCAL;
  no_cache.request.execution = v1::EXECUTION_NO_CACHE;
  local.Run();
  no_cache.Run();
  local.CheckSuccess();
  no_cache.CheckSuccess();
  EXPECT_EQ(local.sink.Ids(), no_cache.sink.Ids());
  EXPECT_EQ(local.cluster.decode_requests[0].reserve().source(), wire::SOURCE_COMPUTED);
  EXPECT_EQ(no_cache.cluster.decode_requests[0].reserve().source(), wire::SOURCE_NO_CACHE);
  EXPECT_EQ(local.sink.Finished()->timings().prefill().seconds(), 3);
  const auto& total = no_cache.sink.responses.back().positions();
  EXPECT_EQ(total.computed(), 5u + 6 + 7 + 8 + 9 + 10);
  EXPECT_EQ(total.recomputed(), total.computed() - 10);
  EXPECT_EQ(total.discarded(), total.computed());
  EXPECT_EQ(local.sink.responses.back().positions().computed(), 10u);
  EXPECT_EQ(local.sink.Started()->placement().prefill_instance(), "d1");
}

TEST(GenerateFlow, WithoutPrefillWorkerTheDefaultIsLocalAndSplitFails) {
  FlowFixture by_default, forced;
  for (FlowFixture* f : {&by_default, &forced}) f->AddWorkers(0, 1);
  forced.request.execution = v1::EXECUTION_SPLIT;
  by_default.Run();
  forced.Run();
  by_default.CheckSuccess();
  EXPECT_EQ(by_default.sink.Started()->placement().execution(), v1::EXECUTION_LOCAL);
  EXPECT_THAT(by_default.sink.Started()->placement().reason(), HasSubstr("no prefill worker"));
  EXPECT_TRUE(absl::IsUnavailable(forced.sink.status)) << forced.sink.status;
  EXPECT_THAT(std::string(forced.sink.status.message()), HasSubstr("no prefill worker"));
  EXPECT_TRUE(forced.sink.responses.empty());
}

TEST(GenerateFlow, StopStringEndsTheTextAndDropsWhatComesAfter) {
  uint32_t dropped = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    FlowFixture f(seed);
    f.AddWorkers(1, 1);
    f.request.spec.set_max_tokens(40);
    const std::string text = FakeText(f.Expected(40));
    f.request.stop = {text.substr(3, 2)};
    f.Run();
    f.CheckSuccess();
    EXPECT_EQ(f.sink.Text(), text.substr(0, text.find(f.request.stop[0])));
    EXPECT_EQ(f.sink.Finished()->reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(f.sink.Finished()->stop(), f.request.stop[0]);
    EXPECT_FALSE(f.sink.Finished()->has_stop_token_id());
    EXPECT_TRUE(f.cluster.decode_requests.back().has_finish());
    FlowFixture keeping(seed);
    keeping.AddWorkers(1, 1);
    keeping.request.spec.set_max_tokens(40);
    keeping.request.stop = f.request.stop;
    keeping.request.include_stop = true;
    keeping.Run();
    EXPECT_EQ(keeping.sink.Text(), f.sink.Text() + f.request.stop[0]);
    EXPECT_EQ(keeping.sink.Finished()->stop(), f.request.stop[0]);
    dropped += f.sink.Finished()->usage().dropped();
  }
  EXPECT_GT(dropped, 0u);
}

TEST(GenerateFlow, StopStringInTokenZero) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    FlowFixture f(seed);
    f.AddWorkers(1, 1);
    f.request.spec.set_max_tokens(40);
    f.request.stop = {FakeText(f.Expected(1))};
    f.Run();
    f.CheckSuccess();
    EXPECT_EQ(f.sink.Ids().size(), 1u);
    EXPECT_EQ(f.sink.Text(), "");
  }
}

TEST(GenerateFlow, StopStringCountsOnlyFromMinTokensOn) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  f.request.spec.set_max_tokens(8);
  f.request.spec.set_min_tokens(8);
  f.request.stop = {FakeText(f.Expected(1))};
  f.Run();
  f.CheckSuccess();
  EXPECT_EQ(f.sink.Ids().size(), 8u);
}

TEST(GenerateFlow, StopTokenHasNoText) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  const std::vector<uint32_t> expected = f.Expected(6);
  f.request.spec.add_stop_token_ids(expected[2]);
  f.Run();
  f.CheckSuccess();
  const auto stop = std::find(expected.begin(), expected.end(), expected[2]) - expected.begin();
  EXPECT_EQ(f.sink.Ids().size(), static_cast<size_t>(stop) + 1);
  EXPECT_EQ(f.sink.Finished()->stop_token_id(), expected[2]);
  EXPECT_EQ(f.sink.Text(), FakeText(expected).substr(0, stop));
}

TEST(GenerateFlow, ResumeGoesOnWhereTheStreamBroke) {
  FlowFixture whole;
  whole.AddWorkers(1, 1);
  whole.request.stop = {"@@"};
  whole.Run();
  const std::vector<uint32_t> ids = whole.sink.Ids();
  ASSERT_EQ(ids.size(), 6u);
  for (uint32_t had = 0; had < 6; ++had) {
    SCOPED_TRACE(had);
    FlowFixture f(had + 1);
    f.AddWorkers(1, 1);
    f.request.stop = {"@@"};
    for (uint32_t i = 0; i < had; ++i) f.request.spec.add_token_ids(ids[i]);
    f.Run();
    f.CheckSuccess();
    EXPECT_EQ(f.sink.Ids(), std::vector<uint32_t>(ids.begin() + had, ids.end()));
    EXPECT_EQ(f.sink.responses.back().positions().selected(), 6u);
    EXPECT_EQ(f.sink.responses.back().positions().emitted(), 6 - had);
    EXPECT_EQ(f.cluster.opened.size(), had == 5 ? 1u : 2u);  // the last token alone needs no decode worker
  }
}

TEST(GenerateFlow, ResumeKeepsTextThatWasHeldBack) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  const std::string text = FakeText(f.Expected(6));
  f.request.stop = {text.substr(0, 1) + "@"};  // token 0 may begin it, so its text was not sent
  f.request.spec.add_token_ids(static_cast<unsigned char>(text[0]));
  f.Run();
  f.CheckSuccess();
  EXPECT_EQ(f.sink.Text(), text);
}

TEST(GenerateFlow, ResumeOfAStreamThatHadStoppedIsRefused) {
  FlowFixture f;
  f.AddWorkers(1, 1);
  f.request.stop = {"ab"};
  for (const char c : std::string("xab")) f.request.spec.add_token_ids(static_cast<unsigned char>(c));
  f.Run();
  EXPECT_TRUE(absl::IsInvalidArgument(f.sink.status)) << f.sink.status;
  EXPECT_TRUE(f.cluster.opened.empty());
}

TEST(GenerateFlow, CancelAnywhereEndsAllCalls) {
  for (const auto execution : {v1::EXECUTION_SPLIT, v1::EXECUTION_LOCAL, v1::EXECUTION_NO_CACHE}) {
    for (int events = 0;; ++events) {
      SCOPED_TRACE(events);
      FlowFixture f(events + 1);
      f.AddWorkers(1, 1);
      f.request.execution = execution;
      f.Start();
      int done = 0;
      while (done < events && f.cluster.Step()) ++done;
      const bool over = f.flow->state() == FlowState::kDone;
      f.flow->Abort(absl::CancelledError("gone"));
      const size_t sent = f.sink.responses.size();
      EXPECT_EQ(f.cluster.open_calls(), 0u);
      EXPECT_EQ(f.flow->state(), FlowState::kDone);
      f.cluster.RunAll();  // late events
      f.flow->OnTick();
      EXPECT_EQ(f.sink.ends, 1);
      EXPECT_EQ(f.sink.responses.size(), sent);
      if (over) break;
      EXPECT_TRUE(absl::IsCancelled(f.sink.status)) << f.sink.status;
    }
  }
}

TEST(GenerateFlow, WorkersThatBreakTheirPromisesGiveInternal) {
  for (const char* instance : {"p1", "d1"}) {
    FlowFixture f;
    f.AddWorkers(1, 1);
    f.cluster.faults[instance].wrong_kv_ready = 1;
    f.Run();
    EXPECT_TRUE(absl::IsInternal(f.sink.status)) << f.sink.status;
    EXPECT_THAT(std::string(f.sink.status.message()), HasSubstr(instance));
  }
  FlowFixture outside;
  outside.AddWorkers(1, 1);
  outside.cluster.faults["p1"].wrong_token_by = 4000000000u;
  outside.Run();
  EXPECT_TRUE(absl::IsInternal(outside.sink.status)) << outside.sink.status;
}

// Messages that no honest worker sends, in the state after Reserved.
TEST(GenerateFlow, MessagesOutOfOrderGiveInternal) {
  std::vector<std::function<void(GenerateFlow&)>> attacks;
  const auto decode = [&](auto fill) {
    attacks.push_back([fill](GenerateFlow& flow) {
      wire::DecodeResponse response;
      fill(response);
      flow.OnDecode(1, response);
    });
  };
  decode([](auto& r) { r.mutable_reserved(); });
  decode([](auto& r) { r.mutable_attempt_open()->set_attempt(1); });
  decode([](auto& r) { r.mutable_committed()->set_winner(2); });
  decode([](auto& r) { r.mutable_committed(); });
  decode([](auto& r) { r.mutable_moved(); });
  decode([](auto& r) { r.mutable_ended(); });
  decode([](auto&) {});
  decode([](auto& r) { r.mutable_selected()->set_index(1); });
  decode([](auto& r) { r.mutable_selected()->set_end(wire::END_REASON_FINISHED_BY_ROUTER); });
  decode([](auto& r) { r.mutable_selected()->add_top()->set_token_id(kFakeVocabulary); });
  decode([](auto& r) { r.mutable_selected()->set_index(4000000000u); });
  attacks.push_back([](GenerateFlow& flow) { flow.OnDecodeEnd(1, absl::OkStatus()); });
  attacks.push_back([](GenerateFlow& flow) { flow.OnPrefillEnd(2, absl::OkStatus()); });
  attacks.push_back([](GenerateFlow& flow) { flow.OnPrefill(2, {}); });
  attacks.push_back([](GenerateFlow& flow) {
    wire::PrefillResponse response;
    response.mutable_done();
    flow.OnPrefill(2, response);
  });
  for (size_t i = 0; i < attacks.size(); ++i) {
    SCOPED_TRACE(i);
    FlowFixture f;
    f.AddWorkers(1, 1);
    f.Start();
    f.cluster.StepRole(v1::WORKER_ROLE_DECODE);
    ASSERT_EQ(f.flow->state(), FlowState::kPrefilling);
    attacks[i](*f.flow);
    EXPECT_TRUE(absl::IsInternal(f.sink.status)) << f.sink.status;
    EXPECT_EQ(f.sink.ends, 1);
    EXPECT_EQ(f.cluster.open_calls(), 0u);
  }
}

}  // namespace
}  // namespace kvrelay::router
