// A flow with fake workers, a fake client and a fake clock, and what must hold after every successful request.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/router/fake_cluster.h"

namespace kvrelay::router {

class FlowFixture {
 public:
  explicit FlowFixture(uint64_t seed = 1) : cluster(seed) {
    request.request_id = "r1";
    SetPrompt("hello");
    request.spec.set_top_p(1);
    request.spec.set_seed(7);
    request.spec.set_max_tokens(6);
    request.spec.set_trace(true);
    request.arrival = clock.now;
  }

  void SetPrompt(const std::string& text) {
    request.spec.clear_token_ids();
    for (const char c : text) request.spec.add_token_ids(static_cast<unsigned char>(c));
    request.spec.set_prompt_length(static_cast<uint32_t>(text.size()));
  }
  void AddWorkers(int prefill, int decode) {
    for (int i = 1; i <= prefill; ++i) cluster.Add(v1::WORKER_ROLE_PREFILL, "p" + std::to_string(i));
    for (int i = 1; i <= decode; ++i) cluster.Add(v1::WORKER_ROLE_DECODE, "d" + std::to_string(i));
  }

  GenerateFlow& Start() {
    flow = std::make_unique<GenerateFlow>(request, FlowDeps{.clock = &clock,
                                                            .workers = &cluster,
                                                            .calls = &cluster,
                                                            .sink = &sink,
                                                            .admission = &admission,
                                                            .memory = &memory,
                                                            .wake = [] {},
                                                            .token_bytes = FakeBytes,
                                                            .vocabulary_size = kFakeVocabulary,
                                                            .new_handoff_id = [this] { return NextId(); },
                                                            .limits = {}});
    cluster.Serve(flow.get());
    flow->Start();
    return *flow;
  }
  void Run() {
    Start();
    cluster.RunAll();
  }

  // Time goes by, and the flow is ticked as the service ticks it.
  void Pass(absl::Duration time) {
    for (const absl::Duration end = clock.now + time; clock.now < end;) {
      clock.now += absl::Milliseconds(250);
      flow->OnTick();
    }
  }

  // All tokens that the request must give, dropped and resumed ones included.
  std::vector<uint32_t> Expected(uint32_t count) const {
    const auto& ids = request.spec.token_ids();
    return FakeContinuation({ids.begin(), ids.end()}, count);
  }

  // The stream is whole, its tokens are the model's, and every position is accounted for.
  void CheckSuccess() {
    ASSERT_TRUE(sink.status.ok()) << sink.status;
    ASSERT_EQ(sink.ends, 1);
    EXPECT_EQ(cluster.open_calls(), 0u);
    ASSERT_NE(sink.Started(), nullptr);
    const v1::Finished* finished = sink.Finished();
    ASSERT_NE(finished, nullptr);
    const std::vector<uint32_t> ids = sink.Ids();
    EXPECT_EQ(ids, Expected(static_cast<uint32_t>(ids.size())));
    uint32_t next = request.resumed();
    for (const auto& response : sink.responses) {
      CheckEquations(response.positions());
      if (response.has_token()) {
        EXPECT_EQ(response.token().index(), next++);
      }
    }
    const v1::PositionAccounting& last = sink.responses.back().positions();
    EXPECT_EQ(last.emitted(), ids.size());
    EXPECT_EQ(last.selected(), request.resumed() + last.emitted() + finished->usage().dropped());
    EXPECT_EQ(finished->usage().completion(), last.emitted());
    EXPECT_EQ(finished->usage().prompt(), request.spec.prompt_length());
    CheckWorkers(*finished, last);
    CheckRuns();
  }

  FakeClock clock;
  FakeCluster cluster;
  FakeSink sink;
  AdmissionQueue admission{{}};
  PlacementMemory memory;
  FlowRequest request;
  std::unique_ptr<GenerateFlow> flow;

 private:
  std::string NextId() {
    std::string id(16, '\0');
    id[0] = static_cast<char>(++ids_drawn_);
    return id;
  }

  void CheckEquations(const v1::PositionAccounting& positions) const {
    EXPECT_EQ(positions.prompt(), request.spec.prompt_length());
    EXPECT_LE(positions.recomputed(), positions.computed());
    const bool cached = sink.Started()->placement().execution() != v1::EXECUTION_NO_CACHE;
    if (!cached) {
      EXPECT_EQ(positions.kv_ready(), 0u);
    } else if (positions.kv_ready() > 0) {
      EXPECT_EQ(positions.prompt() + positions.selected() - positions.kv_ready(), 1u) << positions.ShortDebugString();
    }
  }

  static void CheckWorkers(const v1::Finished& finished, const v1::PositionAccounting& total) {
    uint64_t computed = 0, recomputed = 0, discarded = 0, shipped = 0;
    for (const v1::WorkerPositions& worker : finished.workers()) {
      const v1::PositionAccounting& p = worker.positions();
      EXPECT_EQ(uint64_t{p.kv_ready()} + p.discarded(), uint64_t{p.reused()} + p.received() + p.computed())
          << worker.ShortDebugString();
      EXPECT_EQ(p.emitted(), 0u);
      computed += p.computed();
      recomputed += p.recomputed();
      discarded += p.discarded();
      shipped += p.shipped();
    }
    EXPECT_EQ(total.computed(), computed);
    EXPECT_EQ(total.recomputed(), recomputed);
    EXPECT_EQ(total.discarded(), discarded);
    EXPECT_EQ(total.shipped(), shipped);
  }

  void CheckRuns() const {
    uint32_t number = 0;
    for (const v1::RunTrace& run : sink.Runs()) {
      EXPECT_EQ(run.run(), ++number);
      EXPECT_EQ(run.computed() + run.recomputed(), run.end_position() - run.first_position());
      EXPECT_EQ(run.history(), run.end_position() + 1);
    }
  }

  int ids_drawn_ = 0;
};

}  // namespace kvrelay::router
