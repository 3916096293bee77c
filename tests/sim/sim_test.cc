// A part of what `./dev sim` runs at length.
#include <gtest/gtest.h>

#include <string>

#include "common/observability/log.h"
#include "tests/sim/bugs.h"
#include "tests/sim/campaign.h"

namespace kvrelay::sim {
namespace {

std::string Describe(const Failure& failure) {
  std::string text = "replay: ./dev sim --seed " + std::to_string(failure.seed) + " --trace";
  for (const auto& [check, what] : failure.violations) text += "\n  [" + check + "] " + what;
  return text;
}

class Simulation : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    observability::InitLog(observability::LogFormat::kText, observability::LogLevel::kError);
  }
  void TearDown() override { Plant(nullptr); }
};

TEST_F(Simulation, HoldsWithoutFaults) {
  EdgeCounts edges{};
  const Outcome outcome = Simulate({.seed = 1, .faults = 0}, &edges);
  EXPECT_TRUE(outcome.violations.empty()) << Describe({1, outcome.violations});
  EXPECT_EQ(outcome.figures.completed, 55u);
  EXPECT_EQ(outcome.figures.resumes, 0u);
}

TEST_F(Simulation, HoldsUnderFaults) {
  const Result result = RunSeeds(1, 300, /*jobs=*/2, /*stop_at_failure=*/false);
  for (const Failure& failure : result.failures) ADD_FAILURE() << Describe(failure);
  EXPECT_EQ(result.seeds, 300u);
  EXPECT_GT(result.figures.replans, 0u);
  EXPECT_GT(result.figures.moves, 0u);
  EXPECT_GT(result.figures.resumes, 0u);
}

TEST_F(Simulation, IsAFunctionOfItsSeed) {
  EdgeCounts first{}, second{};
  const Outcome once = Simulate({.seed = 7}, &first);
  const Outcome again = Simulate({.seed = 7}, &second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(once.figures.tokens, again.figures.tokens);
  EXPECT_EQ(once.figures.replans, again.figures.replans);
}

class PlantedBug : public Simulation, public ::testing::WithParamInterface<const char*> {};

TEST_P(PlantedBug, IsFound) {
  Plant(GetParam());
  EXPECT_FALSE(RunSeeds(1, 100, /*jobs=*/2, /*stop_at_failure=*/true).failures.empty());
}

INSTANTIATE_TEST_SUITE_P(Some, PlantedBug,
                         ::testing::Values("free_before_receipt", "replan_loses_token", "lost_finish"));

}  // namespace
}  // namespace kvrelay::sim
