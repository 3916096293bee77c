#include "common/kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <thread>

namespace kvrelay::kv {
namespace {

constexpr KvLayout kLayout{.layers = 2, .kv_heads = 1, .head_dim = 16, .type = KvType::kF16};

TEST(BlockPool, TakesAllOrNothing) {
  auto pool = *BlockPool::Create(kLayout, 5);
  const auto three = pool->Take(3);
  ASSERT_TRUE(three.ok());
  EXPECT_EQ(pool->referenced(), 3);
  const auto refused = pool->Take(3);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("need 3 KV blocks, 2 of 5 are free"));
  EXPECT_EQ(pool->referenced(), 3);
  ASSERT_TRUE(pool->Take(2).ok());
  EXPECT_FALSE(pool->Take(1).ok());
  EXPECT_TRUE(pool->Take(0).ok());
  EXPECT_FALSE(pool->Take(std::numeric_limits<int>::max()).ok());
  pool->Return(*three);
  EXPECT_EQ(pool->referenced(), 2);
}

TEST(BlockPool, BlocksAreDistinctMemory) {
  auto pool = *BlockPool::Create(kLayout, 4);
  const auto ids = *pool->Take(4);
  EXPECT_EQ(std::set<BlockId>(ids.begin(), ids.end()).size(), 4u);
  for (BlockId id : ids) std::memset(pool->Data(id), static_cast<int>(id + 1), kLayout.BlockBytes());
  for (BlockId id : ids)
    for (size_t i : {size_t{0}, kLayout.BlockBytes() - 1}) EXPECT_EQ(pool->Data(id)[i], static_cast<std::byte>(id + 1));
}

TEST(BlockPool, MoreThanTheMachineHasIsRefused) {
  const KvLayout huge{.layers = 1000, .kv_heads = 1000, .head_dim = 256, .type = KvType::kF32};
  EXPECT_EQ(BlockPool::Create(huge, std::numeric_limits<int>::max()).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(BlockPool, HeadsThatTheTypeCannotHoldAreRefused) {
  const KvLayout odd{.layers = 2, .kv_heads = 1, .head_dim = 48, .type = KvType::kInt8};
  EXPECT_EQ(BlockPool::Create(odd, 5).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BlockPoolDeathTest, BrokenPromises) {
  auto pool = *BlockPool::Create(kLayout, 2);
  const auto ids = *pool->Take(1);
  pool->Return(ids);
  EXPECT_DEATH(pool->Return(ids), "was taken before");
  const BlockId foreign = 7;
  EXPECT_DEATH(pool->Return(absl::MakeConstSpan(&foreign, 1)), "was taken before");
  EXPECT_DEATH(pool->Data(2), "one of this pool");
  EXPECT_DEATH((void)pool->Take(-1), "not negative");
}

TEST(BlockPool, ConcurrentTakersNeverShareABlock) {
  auto pool = *BlockPool::Create(kLayout, 8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&pool, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 500; ++i) {
        const auto ids = pool->Take(1 + static_cast<int>(random() % 4));
        if (!ids.ok()) continue;
        // Another holder of the same block would write its own mark, and TSan would see the race.
        for (BlockId id : *ids) *pool->Data(id) = static_cast<std::byte>(t);
        for (BlockId id : *ids) ASSERT_EQ(*pool->Data(id), static_cast<std::byte>(t));
        pool->Return(*ids);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->referenced(), 0);
  EXPECT_TRUE(pool->Take(8).ok());
}

}  // namespace
}  // namespace kvrelay::kv
