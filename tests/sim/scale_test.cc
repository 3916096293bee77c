// A small part of what `./dev scale` shows.
#include "tests/sim/scale.h"

#include <gtest/gtest.h>

#include "common/observability/log.h"

namespace kvrelay::sim {
namespace {

class Scale : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    observability::InitLog(observability::LogFormat::kText, observability::LogLevel::kError);
  }
};

TEST_F(Scale, WorkIsSharedEvenly) {
  for (const int routers : {1, 8}) {
    const ScaleResult result = RunScale({.workers = 60, .routers = routers, .requests = 3030});
    EXPECT_EQ(result.completed, 3030u);
    EXPECT_LE(result.busiest_prefill, 1.2);
    EXPECT_LE(result.busiest_decode, 1.2);
    EXPECT_LE(result.longest_wait, absl::Seconds(5));
  }
}

TEST_F(Scale, BeginningsAreFoundAgainAndNoRequestStarves) {
  const ScaleResult result = RunScale({.workers = 60, .routers = 4, .requests = 3030, .skewed = true});
  EXPECT_EQ(result.completed, 3030u);
  EXPECT_GT(result.replaced, 0u);
  EXPECT_GE(result.hit_rate, 0.6 * result.best_hit_rate);
  EXPECT_LE(result.longest_wait, absl::Seconds(5));
}

TEST_F(Scale, IsAFunctionOfItsSeed) {
  const ScaleOptions options = {.workers = 40, .routers = 2, .requests = 1000, .seed = 7, .skewed = true};
  const ScaleResult once = RunScale(options), again = RunScale(options);
  EXPECT_EQ(once.hit_rate, again.hit_rate);
  EXPECT_EQ(once.longest_wait, again.longest_wait);
  EXPECT_EQ(once.calls_per_request, again.calls_per_request);
}

}  // namespace
}  // namespace kvrelay::sim
