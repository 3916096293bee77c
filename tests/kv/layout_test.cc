#include "common/kv/layout.h"

#include <gtest/gtest.h>

#include <string>

namespace kvrelay::kv {
namespace {

TEST(KvType, NamesRoundTrip) {
  for (KvType type : kAllKvTypes) EXPECT_EQ(*ParseKvType(KvTypeName(type)), type);
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

TEST(KvLayout, BytesPerPositionOfEveryType) {
  const auto bytes = [](KvType type) {
    const KvLayout layout{.layers = 30, .kv_heads = 3, .head_dim = 64, .type = type};
    EXPECT_EQ(layout.BlockBytes(), 64 * 30 * layout.PositionBytes());
    return 30 * layout.PositionBytes();
  };
  EXPECT_EQ(bytes(KvType::kF16), 23040u);
  EXPECT_EQ(bytes(KvType::kBf16), 23040u);
  EXPECT_EQ(bytes(KvType::kF32), 46080u);
  EXPECT_EQ(bytes(KvType::kInt8), 12240u) << "34 bytes for 32 values";
}

TEST(KvLayout, Int8NeedsHeadsOfWholeScales) {
  for (int head_dim = 16; head_dim <= 256; head_dim += 16)
    for (KvType type : kAllKvTypes) {
      const absl::Status status = CheckKvLayout({.layers = 1, .kv_heads = 1, .head_dim = head_dim, .type = type});
      const bool fits = type != KvType::kInt8 || head_dim % 32 == 0;
      EXPECT_EQ(status.code(), fits ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument) << status;
    }
}

TEST(KvLayout, BlocksFor) {
  EXPECT_EQ(BlocksFor(0), 0);
  EXPECT_EQ(BlocksFor(1), 1);
  EXPECT_EQ(BlocksFor(64), 1);
  EXPECT_EQ(BlocksFor(65), 2);
}

}  // namespace
}  // namespace kvrelay::kv
