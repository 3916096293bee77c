// A short run of ./dev chaos.
#include "tests/e2e/chaos.h"

#include <gtest/gtest.h>

namespace kvrelay::e2e {
namespace {

TEST(Chaos, EveryStreamIsThatOfAnUndisturbedRun) {
  const auto report = RunChaos({.streams = 8, .duration = absl::Seconds(12)});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->streams, 0);
  EXPECT_FALSE(report->faults.empty());
  EXPECT_TRUE(report->clean()) << report->Text();
}

}  // namespace
}  // namespace kvrelay::e2e
