#include "router/worker_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "tests/router/fake_cluster.h"

namespace kvrelay::router {
namespace {

const WorkerTable::Key kKey = {v1::WORKER_ROLE_DECODE, "d1:1"};

wire::WatchStatusResponse Report(uint64_t beat) {
  wire::WatchStatusResponse report = FakeWorker(v1::WORKER_ROLE_DECODE, "d1").status;
  report.mutable_load()->set_beat(beat);
  return report;
}

TEST(WorkerTableTest, AHangIsASilenceThatWasHeard) {
  FakeClock clock;
  WorkerTable table(kFakeFingerprint, absl::Seconds(5), &clock, /*seed=*/1);
  table.Add(kKey);
  table.OnReport(kKey, Report(1));
  table.OnTick();
  ASSERT_TRUE(table.Snapshot()[0].ready);
  const Worker worker = table.Snapshot()[0];
  clock.now += absl::Seconds(60);  // this process was suspended
  table.OnTick();
  EXPECT_TRUE(table.Snapshot()[0].ready);
  EXPECT_FALSE(table.Lost(worker));
  for (int i = 0; i < 24; ++i) {
    clock.now += absl::Milliseconds(250);
    table.OnReport(kKey, Report(1));
    table.OnTick();
  }
  EXPECT_FALSE(table.Snapshot()[0].ready);
  EXPECT_TRUE(table.Lost(worker));
}

TEST(WorkerTableTest, ADisconnectedWorkersLastLoadIsForgotten) {
  FakeClock clock;
  WorkerTable table(kFakeFingerprint, absl::Seconds(5), &clock, /*seed=*/1);
  table.Add(kKey);
  wire::WatchStatusResponse report = Report(1);
  report.mutable_load()->set_active_sessions(7);
  table.OnReport(kKey, report);
  EXPECT_EQ(table.Snapshot()[0].status.load().active_sessions(), 7u);
  table.OnStreamEnd(kKey, absl::UnavailableError("gone"));
  EXPECT_EQ(table.Snapshot()[0].status.load().active_sessions(), 0u);
  EXPECT_FALSE(table.Snapshot()[0].ready);
}

// Decode workers d0, d1, ... and those of them among which a request is placed.
class DrawTest : public testing::Test {
 protected:
  void Connect(int count) {
    for (int i = 0; i < count; ++i) Report(i, [](wire::WatchStatusResponse&) {});
  }
  void Report(int number, const std::function<void(wire::WatchStatusResponse&)>& change) {
    const std::string name = "d" + std::to_string(number);
    const WorkerTable::Key key = {v1::WORKER_ROLE_DECODE, name + ":1"};
    wire::WatchStatusResponse report = FakeWorker(v1::WORKER_ROLE_DECODE, name).status;
    report.mutable_load()->set_kv_blocks_total(100);
    change(report);
    table_.Add(key);
    table_.OnReport(key, report);
  }
  std::set<std::string> Drawn() {
    std::set<std::string> names;
    for (const Worker& worker : table_.Candidates(request_, avoided_)) names.insert(worker.instance());
    return names;
  }

  FakeClock clock_;
  WorkerTable table_{kFakeFingerprint, absl::Seconds(5), &clock_, /*seed=*/1};
  PlacementRequest request_{.tokens = 640};
  AvoidedWorkers avoided_;
};

TEST_F(DrawTest, OfFewAllAreCandidates) {
  Connect(WorkerTable::kFew);
  Report(3, [](auto& report) { report.set_draining(true); });
  EXPECT_EQ(Drawn().size(), WorkerTable::kFew);
}

TEST_F(DrawTest, OfManyAFewAndEveryOneInTurn) {
  Connect(100);
  std::set<std::string> all;
  for (int i = 0; i < 500; ++i) {
    const std::set<std::string> drawn = Drawn();
    EXPECT_EQ(drawn.size(), WorkerTable::kDrawn);
    all.insert(drawn.begin(), drawn.end());
  }
  EXPECT_EQ(all.size(), 100u);
}

TEST_F(DrawTest, HoldersOfTheBeginningAreAmongThem) {
  Connect(100);
  request_.held[KeyOf(FakeWorker(v1::WORKER_ROLE_DECODE, "d42"))] = 64;
  request_.held[KeyOf(FakeWorker(v1::WORKER_ROLE_DECODE, "d43"))] = 0;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Drawn().contains("d42"));
}

TEST_F(DrawTest, OnlyThoseThatCanTakeTheRequest) {
  Connect(100);
  for (int i = 0; i < 60; ++i) Report(i, [](auto& report) { report.set_draining(true); });
  for (int i = 60; i < 90; ++i) Report(i, [](auto& report) { report.set_context_length(100); });
  for (int i = 0; i < 100; ++i) {
    for (const std::string& name : Drawn()) EXPECT_GE(name, "d90");
  }
  // Too rare for a draw.
  Report(17, [](auto& report) { report.mutable_identity()->set_numerics_id("n2"); });
  request_.numerics_id = "n2";
  EXPECT_EQ(Drawn(), std::set<std::string>{"d17"});
  // None: all are needed to say why.
  request_.numerics_id = "n3";
  EXPECT_EQ(Drawn().size(), 100u);
}

TEST_F(DrawTest, ThoseWithRoomComeFirst) {
  Connect(100);
  for (int i = 0; i < 90; ++i) Report(i, [](auto& report) { report.mutable_load()->set_kv_blocks_referenced(95); });
  for (int i = 0; i < 100; ++i) {
    for (const std::string& name : Drawn()) EXPECT_GE(name, "d90");
  }
  for (int i = 90; i < 100; ++i) Report(i, [](auto& report) { report.mutable_load()->set_kv_blocks_referenced(95); });
  EXPECT_EQ(Drawn().size(), WorkerTable::kDrawn);
}

TEST_F(DrawTest, WhoIsGoneOrAnotherProcessIsNotDrawn) {
  Connect(WorkerTable::kFew + 1);
  table_.Remove({v1::WORKER_ROLE_DECODE, "d0:1"});
  table_.Add({v1::WORKER_ROLE_DECODE, "late:1"});
  table_.OnStreamEnd({v1::WORKER_ROLE_DECODE, "d1:1"}, absl::UnavailableError("gone"));
  Report(2, [](auto& report) { report.mutable_identity()->set_instance("again"); });
  std::set<std::string> all;
  for (int i = 0; i < 200; ++i) all.merge(Drawn());
  EXPECT_EQ(all.size(), WorkerTable::kFew - 1);
  EXPECT_FALSE(all.contains("d0") || all.contains("d1") || all.contains("d2"));
  EXPECT_TRUE(all.contains("again"));
}

}  // namespace
}  // namespace kvrelay::router
