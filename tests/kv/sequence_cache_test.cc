#include "common/kv/sequence_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

namespace kvrelay::kv {
namespace {

KvLayout LayoutOf(KvType type) { return {.layers = 2, .kv_heads = 3, .head_dim = 64, .type = type}; }

std::vector<std::byte> RandomBytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class SequenceCacheTest : public testing::TestWithParam<KvType> {
 protected:
  const KvLayout layout_ = LayoutOf(GetParam());
  std::unique_ptr<BlockPool> pool_ = *BlockPool::Create(layout_, 4);
};

TEST_P(SequenceCacheTest, TakesAndReturnsItsBlocks) {
  auto cache = *SequenceCache::Reserve(pool_.get(), 65);
  EXPECT_EQ(pool_->referenced(), 2);
  EXPECT_EQ(cache->capacity(), 65);
  EXPECT_EQ(SequenceCache::Reserve(pool_.get(), 129).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(SequenceCache::Reserve(pool_.get(), std::numeric_limits<int>::max()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool_->referenced(), 2);
  cache.reset();
  EXPECT_EQ(pool_->referenced(), 0);
}

TEST_P(SequenceCacheTest, PublishesWithinCapacity) {
  auto cache = *SequenceCache::Reserve(pool_.get(), 10);
  EXPECT_EQ(cache->kv_ready(), 0);
  cache->Publish(4);
  cache->Publish(6);
  EXPECT_EQ(cache->kv_ready(), 10);
  EXPECT_DEATH(cache->Publish(1), "within the capacity");
  cache->Clear();
  EXPECT_EQ(cache->kv_ready(), 0);
}

// Every start and length inside a block: what goes in comes out, and no other byte of the cache changes.
TEST_P(SequenceCacheTest, CopyInThenOutIsIdentityAtAllAlignments) {
  auto cache = *SequenceCache::Reserve(pool_.get(), 128);
  for (int first = 0; first < 64; ++first) {
    for (int positions = 1; positions <= 64 - first; positions += 1 + positions / 7) {
      const auto background = RandomBytes(64 * layout_.PositionBytes(), 1);
      const auto sent = RandomBytes(positions * layout_.PositionBytes(), 64 * first + positions);
      cache->CopyIn(1, 64, 64, background);
      cache->CopyIn(1, 64 + first, positions, sent);
      std::vector<std::byte> got(sent.size());
      cache->CopyOut(1, 64 + first, positions, absl::MakeSpan(got));
      ASSERT_EQ(got, sent) << first << "+" << positions;

      // The wire form is keys of all positions, then values: splice the expected whole by hand.
      std::vector<std::byte> all(background.size()), expected = background;
      const size_t row = layout_.PositionBytes() / 2;
      std::memcpy(&expected[first * row], sent.data(), positions * row);
      std::memcpy(&expected[(64 + first) * row], &sent[positions * row], positions * row);
      cache->CopyOut(1, 64, 64, absl::MakeSpan(all));
      ASSERT_EQ(all, expected) << first << "+" << positions;
    }
  }
}

TEST_P(SequenceCacheTest, UnalignedWireBytes) {
  auto cache = *SequenceCache::Reserve(pool_.get(), 64);
  const auto sent = RandomBytes(5 * layout_.PositionBytes() + 1, 3);
  std::vector<std::byte> got(sent.size());
  cache->CopyIn(0, 3, 5, absl::MakeConstSpan(sent).subspan(1));
  cache->CopyOut(0, 3, 5, absl::MakeSpan(got).subspan(1));
  EXPECT_TRUE(std::equal(sent.begin() + 1, sent.end(), got.begin() + 1));
}

// The place of each element, computed here from the documented layout alone.
TEST_P(SequenceCacheTest, KeysAreTransposedInGroupsOf16) {
  auto cache = *SequenceCache::Reserve(pool_.get(), 128);
  const auto sent = RandomBytes(64 * layout_.PositionBytes(), 9);
  cache->CopyIn(1, 64, 64, sent);
  const std::byte* wire = sent.data();
  // The next `count` elements of the wire against the array of them that lies `from` bytes behind the head's start.
  const auto check = [&](bool values, int position, int head, int from, int count, size_t element) {
    for (int i = 0; i < count; ++i, wire += element) {
      const std::byte* slot =
          values ? cache->V(1, 1, head) + from + (position * count + i) * element
                 : cache->K(1, 1, head) + from + ((position / 16 * count + i) * 16 + position % 16) * element;
      ASSERT_EQ(std::memcmp(slot, wire, element), 0) << position << " " << head << " " << i;
    }
  };
  const int dim = layout_.head_dim;
  for (bool values : {false, true})
    for (int position = 0; position < 64; ++position)
      for (int head = 0; head < layout_.kv_heads; ++head) {
        check(values, position, head, 0, dim, GetParam() == KvType::kInt8 ? 1 : GetParam() == KvType::kF32 ? 4 : 2);
        if (GetParam() == KvType::kInt8) check(values, position, head, 64 * dim, dim / 32, 2);
      }
}

TEST_P(SequenceCacheTest, CopiesCheckTheirSpan) {
  auto cache = *SequenceCache::Reserve(pool_.get(), 100);
  std::vector<std::byte> bytes(layout_.PositionBytes() * 2);
  const auto copy = [&](int layer, int first) { cache->CopyIn(layer, first, 2, bytes); };
  EXPECT_DEATH(copy(2, 0), "layer exists");
  EXPECT_DEATH(copy(-1, 0), "layer exists");
  EXPECT_DEATH(copy(0, 63), "share a block");
  EXPECT_DEATH(copy(0, 99), "within the capacity");
  EXPECT_DEATH(copy(0, -1), "within the capacity");
  EXPECT_DEATH(cache->CopyIn(0, 0, 3, bytes), "size of its positions");
}

INSTANTIATE_TEST_SUITE_P(Types, SequenceCacheTest, testing::ValuesIn(kAllKvTypes),
                         [](const auto& info) { return std::string(KvTypeName(info.param)); });

}  // namespace
}  // namespace kvrelay::kv
