#include "common/kv_wire/send_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvrelay::kv_wire {
namespace {

using ::testing::ElementsAre;

class SendBudgetTest : public testing::Test {
 protected:
  bool Take(uint64_t bytes, const std::string& name) {
    return budget_.Take(bytes, [this, name] { granted_.push_back(name); });
  }
  SendBudget budget_{100};
  std::vector<std::string> granted_;
};

TEST_F(SendBudgetTest, GrantsInOrderAsRoomComes) {
  EXPECT_TRUE(Take(60, "a"));
  EXPECT_TRUE(Take(40, "b"));
  EXPECT_FALSE(Take(50, "c"));
  EXPECT_FALSE(Take(1, "d")) << "small ones do not overtake";
  budget_.Give(40);
  EXPECT_THAT(granted_, ElementsAre());
  budget_.Give(60);
  EXPECT_THAT(granted_, ElementsAre("c", "d"));
  EXPECT_TRUE(Take(49, "e"));
  EXPECT_FALSE(Take(1, "f"));
}

TEST_F(SendBudgetTest, AFrameLargerThanTheBudgetGoesAlone) {
  EXPECT_TRUE(Take(1000, "a"));
  EXPECT_FALSE(Take(1000, "b"));
  budget_.Give(1000);
  EXPECT_THAT(granted_, ElementsAre("b"));
  EXPECT_FALSE(Take(1, "c"));
}

TEST_F(SendBudgetTest, AGrantMayGiveAtOnce) {
  int granted = 0;
  EXPECT_TRUE(Take(100, "a"));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(budget_.Take(100, [&] {
      ++granted;
      budget_.Give(100);
    }));
  }
  budget_.Give(100);
  EXPECT_EQ(granted, 5);
  EXPECT_TRUE(Take(100, "b"));
}

}  // namespace
}  // namespace kvrelay::kv_wire
