#include "router/placement_memory.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/router/fake_cluster.h"

namespace kvrelay::router {
namespace {

std::vector<uint32_t> Tokens(size_t count, uint32_t first = 0) {
  std::vector<uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class PlacementMemoryTest : public testing::Test {
 protected:
  uint32_t Held(const BlockChain& chain, const Worker& worker) {
    const HeldPositions held = memory_.Held(chain);
    const auto found = held.find(KeyOf(worker));
    return found == held.end() ? 0 : found->second;
  }
  PlacementMemory memory_{100};
  const Worker a_ = FakeWorker(v1::WORKER_ROLE_DECODE, "a");
  const Worker b_ = FakeWorker(v1::WORKER_ROLE_PREFILL, "b");
};

TEST_F(PlacementMemoryTest, ChainsAreEqualAsFarAsTokensAre) {
  EXPECT_EQ(ChainOf("", Tokens(63)).size(), 0u);
  const BlockChain chain = ChainOf("", Tokens(200));
  ASSERT_EQ(chain.size(), 3u);
  auto other = Tokens(200);
  other[100] = 7;
  const BlockChain forked = ChainOf("", other);
  EXPECT_EQ(forked[0], chain[0]);
  EXPECT_NE(forked[1], chain[1]);
  EXPECT_NE(forked[2], chain[2]);
  EXPECT_NE(ChainOf("salt", Tokens(200))[0], chain[0]);
}

TEST_F(PlacementMemoryTest, TellsWhoHoldsWhat) {
  const BlockChain chain = ChainOf("", Tokens(300));
  memory_.Learn(chain, a_, 300);
  memory_.Learn(chain, b_, 130);
  EXPECT_EQ(Held(chain, a_), 256u);
  EXPECT_EQ(Held(chain, b_), 128u);
  EXPECT_EQ(Held(ChainOf("", Tokens(100)), a_), 64u);
  EXPECT_EQ(Held(ChainOf("x", Tokens(300)), a_), 0u);
  EXPECT_EQ(Held(chain, FakeWorker(v1::WORKER_ROLE_DECODE, "c")), 0u);
}

TEST_F(PlacementMemoryTest, IsCorrected) {
  const BlockChain chain = ChainOf("", Tokens(300));
  memory_.Learn(chain, a_, 300);
  memory_.Learn(chain, a_, 70);
  EXPECT_EQ(Held(chain, a_), 64u);
  memory_.Learn(chain, a_, 0);
  EXPECT_EQ(Held(chain, a_), 0u);
}

TEST_F(PlacementMemoryTest, ARestartedWorkerHoldsNothing) {
  const BlockChain chain = ChainOf("", Tokens(300));
  memory_.Learn(chain, a_, 300);
  Worker again = a_;
  again.status.mutable_identity()->set_epoch(a_.epoch() + 1);
  EXPECT_EQ(Held(chain, again), 0u);
}

TEST_F(PlacementMemoryTest, ForgetsTheLeastRecentlyUsed) {
  const BlockChain old = ChainOf("", Tokens(50 * 64)), kept = ChainOf("", Tokens(40 * 64, 1 << 20));
  memory_.Learn(old, a_, 50 * 64);
  memory_.Learn(kept, a_, 40 * 64);
  EXPECT_EQ(Held(kept, a_), 40u * 64);
  memory_.Learn(ChainOf("", Tokens(60 * 64, 1 << 21)), a_, 60 * 64);
  EXPECT_EQ(Held(kept, a_), 40u * 64);
  EXPECT_EQ(Held(old, a_), 0u);
}

TEST_F(PlacementMemoryTest, AveragesHandoffs) {
  EXPECT_EQ(memory_.handoff(), absl::Milliseconds(5));
  for (int i = 0; i < 100; ++i) memory_.OnHandoff(absl::Milliseconds(2));
  EXPECT_GT(memory_.handoff(), absl::Milliseconds(1.9));
  EXPECT_LT(memory_.handoff(), absl::Milliseconds(2.1));
}

}  // namespace
}  // namespace kvrelay::router
