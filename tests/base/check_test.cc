#include "common/base/check.h"

#include "gtest/gtest.h"

namespace kvrelay {
namespace {

TEST(CheckTest, HoldsWithoutEffect) {
  int evaluated = 0;
  KV_CHECK(++evaluated == 1, "evaluated once");
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckTest, EndsTheProcessNamingConditionAndMeaning) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int positions = 3;
  EXPECT_DEATH(KV_CHECK(positions == 4, "one step ahead"), "check_test.cc:[0-9]+: .*positions == 4 .*one step ahead");
}

TEST(CheckTest, IsOneStatement) {
  // Must bind as a single statement, so that the else belongs to the outer if.
  bool reached_else = false;
  if (reached_else)
    KV_CHECK(true, "not reached");
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

}  // namespace
}  // namespace kvrelay
