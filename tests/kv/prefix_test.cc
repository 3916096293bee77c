// Sequences that begin alike share blocks; what nobody uses is given up in order of worth; nothing that is read is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "common/kv/sequence_cache.h"

namespace kvrelay::kv {
namespace {

constexpr KvLayout kOneLayer{.layers = 1, .kv_heads = 1, .head_dim = 16, .type = KvType::kF16};

// `count` ids from `first` on.
std::vector<int32_t> Tokens(int count, int first = 0) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::shared_ptr<SequenceCache> Begin(BlockPool& pool, const std::vector<int32_t>& tokens, const std::string& salt = "",
                                     int room = 0) {
  auto cache = SequenceCache::ReserveShared(&pool, static_cast<int>(tokens.size()) + room, salt, tokens);
  EXPECT_TRUE(cache.ok()) << cache.status();
  return *std::move(cache);
}

// Computes what is not there yet, and lets others share it.
void Fill(SequenceCache& cache, const std::vector<int32_t>& tokens) {
  cache.Publish(static_cast<int>(tokens.size()) - cache.kv_ready());
  cache.NameBlocks(tokens);
}

void Leave(BlockPool& pool, const std::vector<int32_t>& tokens, const std::string& salt = "") {
  Fill(*Begin(pool, tokens, salt), tokens);
}

int Known(BlockPool& pool, const std::vector<int32_t>& tokens, const std::string& salt = "") {
  return Begin(pool, tokens, salt)->reused();
}

TEST(Prefix, WholeBlocksAreSharedAndTheLastTokenIsNot) {
  auto pool = *BlockPool::Create(kOneLayer, 16);
  const auto prompt = Tokens(200);
  auto first = Begin(*pool, prompt);
  EXPECT_EQ(first->reused(), 0);
  Fill(*first, prompt);
  auto second = Begin(*pool, prompt);  // while the first still runs
  EXPECT_EQ(second->reused(), 192);
  EXPECT_EQ(second->kv_ready(), 192);
  EXPECT_EQ(second->K(2, 0, 0), first->K(2, 0, 0));
  EXPECT_NE(second->K(3, 0, 0), first->K(3, 0, 0));
  EXPECT_EQ(pool->referenced(), 5);
  for (const int length : {1, 64, 65, 128, 129, 192, 193})
    EXPECT_EQ(Known(*pool, Tokens(length)), (length - 1) / 64 * 64) << length;
  EXPECT_EQ(pool->prefix_counts().asked, 200u + 200 + 1 + 64 + 65 + 128 + 129 + 192 + 193);
  EXPECT_EQ(pool->prefix_counts().found, 192u + 0 + 0 + 64 + 64 + 128 + 128 + 192);
  first.reset();
  second.reset();
  EXPECT_EQ(pool->referenced(), 0);
  EXPECT_EQ(pool->cached(), 3);
  EXPECT_EQ(Known(*pool, prompt), 192);
}

TEST(Prefix, ADifferentTokenEndsTheCommonPart) {
  auto pool = *BlockPool::Create(kOneLayer, 16);
  Leave(*pool, Tokens(300));
  auto other = Tokens(300);
  other[130] = -1;
  EXPECT_EQ(Known(*pool, other), 128);
  other[0] = -1;
  EXPECT_EQ(Known(*pool, other), 0);
  // The second block's tokens at the first block's place are another block.
  EXPECT_EQ(Known(*pool, Tokens(100, 64)), 0);
}

TEST(Prefix, SaltsNeverMeet) {
  auto pool = *BlockPool::Create(kOneLayer, 32);
  Leave(*pool, Tokens(200), "a");
  EXPECT_EQ(Known(*pool, Tokens(200), "b"), 0);
  EXPECT_EQ(Known(*pool, Tokens(200), ""), 0);
  EXPECT_EQ(Known(*pool, Tokens(200), "a"), 192);
}

TEST(Prefix, WhatGrewIsSharedToo) {
  auto pool = *BlockPool::Create(kOneLayer, 16);
  const auto all = Tokens(260);
  auto cache = Begin(*pool, Tokens(100), "", 160);
  Fill(*cache, Tokens(100));
  for (int end = 101; end <= 260; ++end) Fill(*cache, Tokens(end));
  EXPECT_EQ(Known(*pool, Tokens(300)), 256);
}

TEST(Prefix, SequencesThatAreNotSharedStayAlone) {
  auto pool = *BlockPool::Create(kOneLayer, 16);
  Leave(*pool, Tokens(200));
  auto alone = *SequenceCache::Reserve(pool.get(), 200);
  EXPECT_EQ(alone->kv_ready(), 0);
  EXPECT_EQ(pool->prefix_counts().asked, 200u);
  alone->Publish(200);
  alone->NameBlocks(Tokens(200, 1000));
  EXPECT_EQ(Known(*pool, Tokens(200, 1000)), 0);
}

TEST(Prefix, TwoThatComputeTheSameKeepOne) {
  auto pool = *BlockPool::Create(kOneLayer, 16);
  const auto prompt = Tokens(150);
  auto a = Begin(*pool, prompt), b = Begin(*pool, prompt);
  Fill(*a, prompt);
  Fill(*b, prompt);
  a.reset();
  b.reset();
  EXPECT_EQ(pool->cached(), 2);
  EXPECT_EQ(Known(*pool, prompt), 128);
}

TEST(Prefix, RoomIsMadeFromTheEndOfTheOldest) {
  auto pool = *BlockPool::Create(kOneLayer, 8);
  Leave(*pool, Tokens(256));         // four blocks
  Leave(*pool, Tokens(256, 10000));  // four more: all are cached
  ASSERT_EQ(pool->cached(), 8);
  auto three = *SequenceCache::Reserve(pool.get(), 3 * 64);
  EXPECT_EQ(pool->cached(), 5);
  three.reset();
  EXPECT_EQ(Known(*pool, Tokens(256)), 64);
  EXPECT_EQ(Known(*pool, Tokens(257, 10000)), 256);
}

TEST(Prefix, WhatWasFoundOutlivesWhatNeverWas) {
  auto pool = *BlockPool::Create(kOneLayer, 8);
  Leave(*pool, Tokens(129));
  EXPECT_EQ(Known(*pool, Tokens(129)), 128);
  for (int i = 1; i <= 20; ++i) Leave(*pool, Tokens(128, 1000 * i));  // a scan: nobody asks twice
  EXPECT_EQ(Known(*pool, Tokens(129)), 128);
}

TEST(Prefix, ButNotForEver) {
  auto pool = *BlockPool::Create(kOneLayer, 8);
  for (int i = 0; i < 4; ++i) {
    Leave(*pool, Tokens(129, 1000 * i));
    EXPECT_EQ(Known(*pool, Tokens(129, 1000 * i)), 128);
  }
  for (int i = 0; i < 4; ++i) Leave(*pool, Tokens(128, 100000 + 1000 * i));
  EXPECT_EQ(Known(*pool, Tokens(129)), 0);  // the oldest of those that were found
}

TEST(Prefix, KnownBlocksAreNotGivenUpForTheRest) {
  auto pool = *BlockPool::Create(kOneLayer, 4);
  Leave(*pool, Tokens(192));
  ASSERT_EQ(pool->cached(), 3);
  auto whole = Begin(*pool, Tokens(193), "", 63);  // three known blocks and the last free one
  EXPECT_EQ(whole->reused(), 192);
  EXPECT_EQ(pool->referenced(), 4);
  EXPECT_EQ(pool->cached(), 0);
  whole.reset();
  EXPECT_FALSE(SequenceCache::ReserveShared(pool.get(), 257, "", Tokens(193)).ok());
  EXPECT_EQ(pool->referenced(), 0) << "a refusal takes nothing";
}

TEST(PrefixDeathTest, SharedPositionsAreNotForgotten) {
  auto pool = *BlockPool::Create(kOneLayer, 4);
  Leave(*pool, Tokens(100));
  auto cache = Begin(*pool, Tokens(100));
  EXPECT_DEATH(cache->Clear(), "what is shared is not forgotten");
}

// Random sequences that share beginnings, against what the blocks themselves hold: each is marked with the tokens it
// was filled for, and a block that is found must bear the marks of the tokens asked for.
TEST(Prefix, RandomSequencesFindOnlyWhatTheyWrote) {
  constexpr int kBlocks = 24;
  auto pool = *BlockPool::Create(kOneLayer, kBlocks);
  std::mt19937 random(1);
  std::vector<std::pair<std::shared_ptr<SequenceCache>, std::vector<int32_t>>> live;
  int found = 0;
  for (int round = 0; round < 5000; ++round) {
    if (!live.empty() && random() % 2 == 0) {
      live.erase(live.begin() + random() % live.size());
    } else {
      std::vector<int32_t> tokens;
      const int length = 1 + static_cast<int>(random() % 400);
      while (static_cast<int>(tokens.size()) < length)
        tokens.resize(tokens.size() + 64, static_cast<int>(random() % 3));
      tokens.resize(length);
      const std::string salt(1, static_cast<char>('a' + random() % 2));
      auto cache = SequenceCache::ReserveShared(pool.get(), length, salt, tokens);
      if (!cache.ok()) continue;
      const auto mark = [&](int position) { return static_cast<std::byte>(tokens[position] * 2 + (salt == "b")); };
      found += (*cache)->reused() > 0;
      for (int p = 0; p < (*cache)->reused(); p += 64) {
        ASSERT_EQ(*(*cache)->V(p / 64, 0, 0), mark(p));
        ASSERT_EQ(*((*cache)->V(p / 64, 0, 0) + 1), static_cast<std::byte>(p / 64)) << "of another place";
      }
      for (int p = (*cache)->reused(); p < length; p += 64) {
        *(*cache)->V(p / 64, 0, 0) = mark(p);
        *((*cache)->V(p / 64, 0, 0) + 1) = static_cast<std::byte>(p / 64);
      }
      Fill(**cache, tokens);
      live.emplace_back(*std::move(cache), std::move(tokens));
    }
    std::set<std::byte*> distinct;
    for (const auto& [cache, tokens] : live) {
      for (int b = 0; b < BlocksFor(cache->capacity()); ++b) distinct.insert(cache->V(b, 0, 0));
    }
    ASSERT_EQ(pool->referenced(), static_cast<int>(distinct.size()));
    ASSERT_LE(pool->referenced() + pool->cached(), kBlocks);
  }
  EXPECT_GT(found, 500);
}

}  // namespace
}  // namespace kvrelay::kv
