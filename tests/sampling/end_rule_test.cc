#include "common/sampling/end_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrelay::sampling {
namespace {

TEST(EndRule, OrderIsEosStopTokenLength) {
  const EndRule rule{.eos_ids = {2}, .stop_ids = {2, 7}, .max_tokens = 3};
  EXPECT_EQ(EndsRequest(rule, 3, 2), EndReason::kEos);
  EXPECT_EQ(EndsRequest(rule, 3, 7), EndReason::kStopToken);
  EXPECT_EQ(EndsRequest(rule, 3, 5), EndReason::kLength);
  EXPECT_EQ(EndsRequest(rule, 4, 5), EndReason::kLength);
  EXPECT_EQ(EndsRequest(rule, 2, 5), EndReason::kNone);
  EXPECT_EQ(EndsRequest(rule, 1, 2), EndReason::kEos);
}

TEST(EndRule, MaxTokensOneEndsAtOnce) { EXPECT_EQ(EndsRequest(EndRule{}, 1, 0), EndReason::kLength); }

TEST(EndRule, WithoutEosIdsNothingIsEos) {
  EXPECT_EQ(EndsRequest({.eos_ids = {}, .stop_ids = {}, .max_tokens = 5}, 1, 2), EndReason::kNone);
}

TEST(BannedIds, AllEndIdsBeforeMinTokens) {
  const EndRule rule{.eos_ids = {2, 0}, .stop_ids = {7}, .max_tokens = 9, .min_tokens = 2};
  EXPECT_THAT(BannedIds(rule, 0), ::testing::UnorderedElementsAre(2, 0, 7));
  EXPECT_THAT(BannedIds(rule, 1), ::testing::UnorderedElementsAre(2, 0, 7));
  EXPECT_THAT(BannedIds(rule, 2), ::testing::IsEmpty());
}

}  // namespace
}  // namespace kvrelay::sampling
