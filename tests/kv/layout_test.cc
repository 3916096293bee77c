#include "common/kv/layout.h"

#include <gtest/gtest.h>

#include <string>

namespace kvrelay::kv {
namespace {

TEST(KvType, NamesRoundTrip) {
  for (KvType type : {KvType::kF16, KvType::kF32}) EXPECT_EQ(*ParseKvType(KvTypeName(type)), type);
}

TEST(KvType, UnknownNamesAreRefusedWithoutQuotingAllOfThem) {
  for (const std::string& name : {std::string(), std::string("F16"), std::string("f16 "), std::string(1 << 20, 'x')}) {
    const auto type = ParseKvType(name);
    EXPECT_EQ(type.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LT(type.status().message().size(), 100u);
  }
}

TEST(KvLayout, SizesOfTheDefaultModel) {
  const KvLayout layout{.layers = 30, .kv_heads = 3, .head_dim = 64, .type = KvType::kF16};
  EXPECT_EQ(layout.PositionBytes(), 768u);
  EXPECT_EQ(layout.LayerBytes(), 64u * 768);
  EXPECT_EQ(layout.BlockBytes(), 30u * 64 * 768);
  EXPECT_EQ(layout.KOffset(0, 0), 0u);
  EXPECT_EQ(layout.VOffset(0, 0), 3u * 64 * 64 * 2);
  EXPECT_EQ(layout.VOffset(29, 2) + layout.HeadBytes(), layout.BlockBytes());
}

TEST(KvLayout, BlocksFor) {
  EXPECT_EQ(BlocksFor(0), 0);
  EXPECT_EQ(BlocksFor(1), 1);
  EXPECT_EQ(BlocksFor(64), 1);
  EXPECT_EQ(BlocksFor(65), 2);
}

}  // namespace
}  // namespace kvrelay::kv
