#include "router/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvrelay::router {
namespace {

using ::testing::ElementsAre;

AdmissionQueue::Request At(int seconds, int priority = 0, uint64_t tokens = 10) {
  return {.arrival = absl::Seconds(seconds), .priority = priority, .tokens = tokens, .admitted_before = false};
}

TEST(AdmissionTest, AllMayTryUntilOneIsRefused) {
  AdmissionQueue queue({});
  std::vector<AdmissionQueue::Ticket> tickets;
  int woken = 0;
  const int count = AdmissionQueue::kTrying + 2;
  for (int i = 0; i < count; ++i) tickets.push_back(*queue.Enter(At(i), [&woken] { ++woken; }));
  EXPECT_TRUE(queue.MayTry(tickets.back()));
  queue.OnRefused(tickets[0]);
  queue.OnRefused(tickets[0]);
  queue.OnRefused(tickets[1]);
  EXPECT_FALSE(queue.MayTry(tickets.back()));
  queue.Leave(tickets[0]);
  EXPECT_FALSE(queue.MayTry(tickets.back()));
  woken = 0;
  queue.Leave(tickets[1]);
  EXPECT_EQ(woken, count - 2) << "there is room again";
  EXPECT_TRUE(queue.MayTry(tickets.back()));
}

TEST(AdmissionTest, TheFirstMayTryAndTheNextIsWokenWhenOneLeaves) {
  AdmissionQueue queue({});
  std::vector<AdmissionQueue::Ticket> tickets;
  std::vector<int> woken;
  const int count = AdmissionQueue::kTrying + 2;
  for (int i = 0; i < count; ++i) tickets.push_back(*queue.Enter(At(i), [&woken, i] { woken.push_back(i); }));
  queue.OnRefused(tickets[0]);
  for (int i = 0; i < count; ++i) EXPECT_EQ(queue.MayTry(tickets[i]), i < count - 2) << i;
  queue.Leave(tickets[3]);
  EXPECT_FALSE(queue.MayTry(tickets[3]));
  EXPECT_TRUE(queue.MayTry(tickets[count - 2]));
  EXPECT_EQ(std::count(woken.begin(), woken.end(), count - 2), 1);
  EXPECT_EQ(std::count(woken.begin(), woken.end(), count - 1), 0);
  queue.Leave(tickets[3]);
  EXPECT_EQ(queue.size(), count - 1u);
}

TEST(AdmissionTest, PriorityIsAHeadStartThatEnds) {
  AdmissionQueue queue({});
  std::vector<int> woken;
  const auto enter = [&](int number, AdmissionQueue::Request request) {
    return *queue.Enter(request, [&woken, number] { woken.push_back(number); });
  };
  enter(0, At(100));
  enter(1, At(105, /*priority=*/1));   // counts as 95
  enter(2, At(111, /*priority=*/1));   // counts as 101: the first has waited long enough
  enter(3, At(100, /*priority=*/-1));  // counts as 110
  queue.Wake();
  EXPECT_THAT(woken, ElementsAre(1, 0, 2, 3));
}

TEST(AdmissionTest, LimitsAreByCountAndByTokens) {
  AdmissionQueue queue({.requests = 2, .tokens = 100});
  const auto first = queue.Enter(At(1, 0, 5000), [] {});
  ASSERT_TRUE(first.ok()) << "any one may wait alone";
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Enter(At(2, 0, 1), [] {}).status()));
  queue.Leave(*first);
  ASSERT_TRUE(queue.Enter(At(3, 0, 60), [] {}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Enter(At(4, 0, 60), [] {}).status()));
  ASSERT_TRUE(queue.Enter(At(5, 0, 40), [] {}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Enter(At(6, 0, 0), [] {}).status()));
  AdmissionQueue::Request stream = At(7, 0, 1000);
  stream.admitted_before = true;
  EXPECT_TRUE(queue.Enter(stream, [] {}).ok()) << "a stream under way is never turned away";
}

}  // namespace
}  // namespace kvrelay::router
