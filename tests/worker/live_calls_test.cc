#include "common/worker/live_calls.h"

#include <gtest/gtest.h>

#include <thread>

namespace kvrelay::worker {
namespace {

TEST(LiveCallsTest, ClosedOpenDraining) {
  LiveCalls calls;
  EXPECT_EQ(calls.Enter().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(calls.CheckOpen().code(), absl::StatusCode::kUnavailable);
  calls.Open();
  EXPECT_TRUE(calls.Enter().ok());
  calls.Drain();
  EXPECT_TRUE(calls.draining());
  EXPECT_EQ(calls.Enter().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(calls.CheckOpen().ok());
  EXPECT_FALSE(calls.WaitUntilIdle(absl::Milliseconds(1)));
  std::thread leaver([&] { calls.Leave(); });
  EXPECT_TRUE(calls.WaitUntilIdle(absl::Seconds(60)));
  leaver.join();
}

}  // namespace
}  // namespace kvrelay::worker
