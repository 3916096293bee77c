#include "router/client_quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "common/rpc/status_mapping.h"

namespace kvrelay::router {
namespace {

TEST(ClientQuotas, CountsEachClientAlone) {
  ClientQuotas quotas({.max_requests = 1});
  auto a = quotas.Enter("a");
  ASSERT_TRUE(a.ok());
  const auto again = quotas.Enter("a");
  EXPECT_TRUE(absl::IsResourceExhausted(again.status()));
  EXPECT_TRUE(rpc::RetryDelay(again.status()).has_value());
  EXPECT_TRUE(quotas.Enter("b").ok());
  a->reset();
  EXPECT_TRUE(quotas.Enter("a").ok());
}

TEST(ClientQuotas, TokensComeBackWithTheTicket) {
  ClientQuotas quotas({.max_tokens = 100});
  auto first = quotas.Enter("a"), second = quotas.Enter("a");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE((*first)->TakeTokens(60).ok());
  EXPECT_TRUE(absl::IsResourceExhausted((*second)->TakeTokens(41)));
  EXPECT_TRUE((*second)->TakeTokens(40).ok());
  first->reset();
  auto third = quotas.Enter("a");
  EXPECT_TRUE((*third)->TakeTokens(60).ok());
}

TEST(ClientQuotas, MoreThanEverFitsIsAnotherError) {
  ClientQuotas quotas({.max_tokens = 100});
  auto ticket = quotas.Enter("a");
  const absl::Status status = (*ticket)->TakeTokens(UINT64_MAX);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_FALSE(rpc::RetryDelay(status).has_value());
  EXPECT_TRUE((*ticket)->TakeTokens(100).ok());
}

TEST(ClientQuotas, WithoutLimitsNothingIsRefused) {
  ClientQuotas quotas({});
  std::vector<std::unique_ptr<QuotaTicket>> tickets;
  for (int i = 0; i < 100; ++i) {
    auto ticket = quotas.Enter("a");
    ASSERT_TRUE(ticket.ok());
    EXPECT_TRUE((*ticket)->TakeTokens(1 << 20).ok());
    tickets.push_back(*std::move(ticket));
  }
}

TEST(ClientQuotas, FromManyThreads) {
  ClientQuotas quotas({.max_requests = 3, .max_tokens = 30});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        auto ticket = quotas.Enter("a");
        if (!ticket.ok()) continue;
        EXPECT_TRUE((*ticket)->TakeTokens(10).ok()) << "3 requests of 10 tokens always fit";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto last = quotas.Enter("a");
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE((*last)->TakeTokens(30).ok()) << "all was given back";
}

}  // namespace
}  // namespace kvrelay::router
