#include "common/engine/draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrelay::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DrafterTest, GuessesWhatFollowedTheLatestPlaceWithTheSameTokens) {
  Drafter drafter;
  const std::vector<int32_t> history = {1, 2, 3, 50, 51, 52, 53, 1, 2, 3, 60, 61, 62, 63, 64, 1, 2, 3};
  EXPECT_THAT(drafter.Guess(history, 100), ElementsAre(60, 61, 62, 63));
  EXPECT_THAT(drafter.Guess(history, 2), ElementsAre(60, 61));
  EXPECT_THAT(drafter.Guess(history, 0), IsEmpty());
  EXPECT_THAT(drafter.Guess(history, -3), IsEmpty());
}

TEST(DrafterTest, GuessesNothingWithoutAnEarlierPlace) {
  Drafter drafter;
  EXPECT_THAT(drafter.Guess({}, 5), IsEmpty());
  EXPECT_THAT(drafter.Guess({7, 7, 7}, 5), IsEmpty());
  EXPECT_THAT(drafter.Guess({1, 2, 3, 4, 2, 3}, 5), IsEmpty()) << "two tokens alike are chance";
}

TEST(DrafterTest, ATextThatGoesRoundIsGuessedRoundAndRound) {
  Drafter drafter;
  EXPECT_THAT(drafter.Guess({7, 7, 7, 7}, 5), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(drafter.Guess({1, 2, 1, 2, 1, 2}, 5), ElementsAre(1, 2, 1, 2));
}

TEST(DrafterTest, MakesMoreOfWhatIsRightAndRestsAfterWhatIsNot) {
  Drafter drafter;
  std::vector<int32_t> history(200);
  for (int i = 0; i < 200; ++i) history[i] = i % 100;
  EXPECT_EQ(drafter.Guess(history, 100).size(), 4u);
  drafter.Learn(4, 4);
  EXPECT_EQ(drafter.Guess(history, 100).size(), 8u);
  drafter.Learn(8, 3);
  EXPECT_EQ(drafter.Guess(history, 100).size(), 3u);
  int steps = 0;
  for (int failures = 0; failures < 10; ++failures) {
    while (drafter.Guess(history, 100).empty()) ++steps;
    drafter.Learn(1, 0);
  }
  EXPECT_EQ(steps, 2 + 4 + 8 + 16 + 32 + 64 * 4);
  while (drafter.Guess(history, 100).empty()) continue;
  drafter.Learn(1, 1);
  EXPECT_EQ(drafter.Guess(history, 100).size(), 2u);
}

}  // namespace
}  // namespace kvrelay::engine
