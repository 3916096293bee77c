#include "common/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace kvrelay {
namespace {

TEST(ClockTest, NeverGoesBack) {
  const Clock* clock = Clock::Real();
  absl::Duration last = clock->Now();
  for (int i = 0; i < 10000; ++i) {
    const absl::Duration now = clock->Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ClockTest, AdvancesByAtLeastTheTimeSlept) {
  const Clock* clock = Clock::Real();
  const absl::Duration before = clock->Now();
  absl::SleepFor(absl::Milliseconds(2));
  EXPECT_GE(clock->Now() - before, absl::Milliseconds(2));
}

TEST(ClockTest, UnixNanosIsTheWallClock) {
  using std::chrono::duration_cast, std::chrono::nanoseconds, std::chrono::system_clock;
  const auto wall = [] { return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count(); };
  constexpr int64_t kDay = int64_t{86'400'000'000'000};  // only the unit is in question, not the machine's precision
  const int64_t nanos = Clock::Real()->UnixNanos();
  EXPECT_GT(nanos, wall() - kDay);
  EXPECT_LT(nanos, wall() + kDay);
}

TEST(ClockTest, RealIsOneObject) { EXPECT_EQ(Clock::Real(), Clock::Real()); }

}  // namespace
}  // namespace kvrelay
