#include "router/worker_table.h"

#include <gtest/gtest.h>

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
  WorkerTable table(kFakeFingerprint, absl::Seconds(5), &clock);
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
  WorkerTable table(kFakeFingerprint, absl::Seconds(5), &clock);
  table.Add(kKey);
  wire::WatchStatusResponse report = Report(1);
  report.mutable_load()->set_active_sessions(7);
  table.OnReport(kKey, report);
  EXPECT_EQ(table.Snapshot()[0].status.load().active_sessions(), 7u);
  table.OnStreamEnd(kKey, absl::UnavailableError("gone"));
  EXPECT_EQ(table.Snapshot()[0].status.load().active_sessions(), 0u);
  EXPECT_FALSE(table.Snapshot()[0].ready);
}

}  // namespace
}  // namespace kvrelay::router
