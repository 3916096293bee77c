#include "common/engine/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrelay::engine {
namespace {

using ::testing::ElementsAre;

TEST(StepPlan, StreamsAlwaysRunAndPromptsShareTheRest) {
  EXPECT_THAT(PlanStep({1, 700, 1, 30}, {.max_rows = 520, .prompt_rows = 512}), ElementsAre(1, 512, 1, 0));
  EXPECT_THAT(PlanStep({1, 100, 1, 30}, {.max_rows = 520, .prompt_rows = 512}), ElementsAre(1, 100, 1, 30));
  EXPECT_THAT(PlanStep({1, 500, 1, 30}, {.max_rows = 520, .prompt_rows = 512}), ElementsAre(1, 500, 1, 12));
}

TEST(StepPlan, WorkspaceBoundsTheSum) {
  EXPECT_THAT(PlanStep({600, 1, 1}, {.max_rows = 10, .prompt_rows = 512}), ElementsAre(8, 1, 1));
}

TEST(StepPlan, OneRowAtATime) { EXPECT_THAT(PlanStep({5, 5}, {.max_rows = 3, .prompt_rows = 1}), ElementsAre(1, 0)); }

TEST(StepPlan, NobodyIsThere) { EXPECT_THAT(PlanStep({}, {.max_rows = 3, .prompt_rows = 1}), ElementsAre()); }

TEST(StepPlan, BudgetBoundsPromptRows) {
  EXPECT_EQ(PromptRowsForBudget(0.05, 0.001, 512, 16), 50);
  EXPECT_EQ(PromptRowsForBudget(0.05, 0.1, 512, 16), 16) << "a prompt always advances";
  EXPECT_EQ(PromptRowsForBudget(0.05, 0, 512, 16), 512) << "nothing measured yet";
  EXPECT_EQ(PromptRowsForBudget(10, 0.001, 512, 16), 512);
  EXPECT_EQ(PromptRowsForBudget(0.001, 0.1, 4, 16), 4) << "never above the chunk";
}

TEST(StepPlan, GuessesFillWhatFewStreamsLeave) {
  EXPECT_EQ(GuessesThatFit({1}, {1}, 7), 7);
  EXPECT_EQ(GuessesThatFit({1, 0, 1, 1}, {1, 0, 1, 1}, 7), 5);
  EXPECT_EQ(GuessesThatFit(std::vector<int>(8, 1), std::vector<int>(8, 1), 7), 0);
  EXPECT_EQ(GuessesThatFit(std::vector<int>(20, 1), std::vector<int>(20, 1), 7), 0);
  EXPECT_EQ(GuessesThatFit({1, 100}, {1, 16}, 7), 0) << "beside a prompt";
  EXPECT_EQ(GuessesThatFit({1, 100}, {1, 0}, 7), 7) << "the prompt waits";
  EXPECT_EQ(GuessesThatFit({1}, {1}, 0), 0);
}

}  // namespace
}  // namespace kvrelay::engine
