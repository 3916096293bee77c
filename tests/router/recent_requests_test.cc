#include "router/recent_requests.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace kvrelay::router {
namespace {

using Request = RecentRequests::Request;

v1::GenerateResponse Started(const std::string& id) {
  v1::GenerateResponse response;
  response.mutable_started()->set_request_id(id);
  response.mutable_started()->set_prompt_tokens(27);
  response.mutable_started()->mutable_placement()->set_decode_instance("decode-1");
  return response;
}

v1::GenerateResponse Finished(uint32_t completion) {
  v1::GenerateResponse response;
  v1::Finished& finished = *response.mutable_finished();
  finished.set_reason(v1::FINISH_REASON_LENGTH);
  finished.mutable_usage()->set_completion(completion);
  finished.mutable_usage()->set_cached(64);
  finished.set_replans(1);
  finished.set_moves(2);
  return response;
}

std::vector<std::string> Ids(const std::vector<v1::RequestSummary>& list) {
  std::vector<std::string> ids;
  for (const v1::RequestSummary& summary : list) ids.push_back(summary.request_id());
  return ids;
}

TEST(RecentRequests, TellsWhatRunsAndHowItEnded) {
  RecentRequests recent;
  Request request(&recent, "a", absl::Seconds(10));
  EXPECT_TRUE(recent.List({}, absl::Seconds(10)).empty());
  request.Sent(Started("one"));
  auto list = recent.List({}, absl::Seconds(12));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_TRUE(list[0].running());
  EXPECT_EQ(list[0].age().seconds(), 2);
  EXPECT_EQ(list[0].prompt_tokens(), 27u);
  EXPECT_EQ(list[0].placement().decode_instance(), "decode-1");
  request.Sent(Finished(8));
  request.Ended(absl::OkStatus(), absl::Seconds(15));
  list = recent.List({}, absl::Seconds(20));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_FALSE(list[0].running());
  EXPECT_EQ(list[0].code(), 0u);
  EXPECT_EQ(list[0].duration().seconds(), 5);
  EXPECT_EQ(list[0].age().seconds(), 10);
  EXPECT_EQ(list[0].completion_tokens(), 8u);
  EXPECT_EQ(list[0].cached_tokens(), 64u);
  EXPECT_EQ(list[0].replans(), 1u);
  EXPECT_EQ(list[0].moves(), 2u);
}

TEST(RecentRequests, ARefusedRequestIsOneToo) {
  RecentRequests recent;
  Request(&recent, "a", absl::ZeroDuration()).Ended(absl::ResourceExhaustedError("full"), absl::Seconds(1));
  Request(&recent, "b", absl::ZeroDuration()).Ended(absl::UnauthenticatedError("no token"), absl::Seconds(1));
  const auto list = recent.List({}, absl::Seconds(1));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].code(), static_cast<uint32_t>(absl::StatusCode::kResourceExhausted));
  EXPECT_FALSE(list[0].has_placement());
}

TEST(RecentRequests, ClientsSeeTheirOwn) {
  RecentRequests recent;
  Request a(&recent, "a", absl::ZeroDuration()), b(&recent, "b", absl::ZeroDuration());
  a.Sent(Started("of a"));
  b.Sent(Started("of b"));
  EXPECT_EQ(Ids(recent.List("a", absl::ZeroDuration())), std::vector<std::string>{"of a"});
  EXPECT_EQ(Ids(recent.List("c", absl::ZeroDuration())), std::vector<std::string>{});
  EXPECT_EQ(Ids(recent.List({}, absl::ZeroDuration())), (std::vector<std::string>{"of b", "of a"}));
}

TEST(RecentRequests, TheOldestIsForgottenAlsoWhileItRuns) {
  RecentRequests recent;
  Request old(&recent, "a", absl::ZeroDuration()), kept(&recent, "a", absl::ZeroDuration());
  old.Sent(Started("old"));
  kept.Sent(Started("kept"));
  for (size_t i = 0; i < RecentRequests::kKept - 1; ++i)
    Request(&recent, "a", absl::ZeroDuration()).Sent(Started(absl::StrCat("r", i)));
  old.Ended(absl::OkStatus(), absl::Seconds(1));
  kept.Ended(absl::CancelledError(), absl::Seconds(1));
  const auto list = recent.List({}, absl::Seconds(1));
  ASSERT_EQ(list.size(), RecentRequests::kKept);
  EXPECT_EQ(list.front().request_id(), absl::StrCat("r", RecentRequests::kKept - 2));
  EXPECT_EQ(list.back().request_id(), "kept");
  EXPECT_FALSE(list.back().running());
  EXPECT_TRUE(list[list.size() - 2].running()) << "the end of a forgotten one changes no other";
}

}  // namespace
}  // namespace kvrelay::router
