#include "common/tensor/huge_buffer.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvrelay {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

HugeBuffer Make(size_t bytes) {
  absl::StatusOr<HugeBuffer> buffer = HugeBuffer::Allocate(bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

bool AllZero(const HugeBuffer& buffer) {
  return std::all_of(buffer.data(), buffer.data() + buffer.size(), [](std::byte b) { return b == std::byte{0}; });
}

TEST(HugeBufferTest, AlignedRoundedUpAndZeroed) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, 2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB}) {
    const HugeBuffer buffer = Make(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % HugeBuffer::kAlignment, 0u) << bytes;
    EXPECT_EQ(buffer.size(), (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB)) << bytes;
    EXPECT_TRUE(AllZero(buffer)) << bytes;
  }
}

TEST(HugeBufferTest, EveryByteIsWritableAndMemoryIsZeroedAnew) {
  for (int round = 0; round < 3; ++round) {
    HugeBuffer buffer = Make(4 * kMiB);
    EXPECT_TRUE(AllZero(buffer));
    std::fill(buffer.data(), buffer.data() + buffer.size(), std::byte{0xff});
    EXPECT_FALSE(AllZero(buffer));
  }
}

TEST(HugeBufferTest, BuffersDoNotOverlap) {
  std::vector<HugeBuffer> buffers;
  for (int i = 0; i < 8; ++i) {
    buffers.push_back(Make(2 * kMiB));
    std::fill(buffers[i].data(), buffers[i].data() + buffers[i].size(), static_cast<std::byte>(i + 1));
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(buffers[i].data()[0], static_cast<std::byte>(i + 1));
    EXPECT_EQ(buffers[i].data()[buffers[i].size() - 1], static_cast<std::byte>(i + 1));
  }
}

TEST(HugeBufferTest, EmptyHasNoMemory) {
  const HugeBuffer none = Make(0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.size(), 0u);
}

TEST(HugeBufferTest, RefusesMoreThanIsFreeWithBothFigures) {
  for (const size_t bytes : {size_t{1} << 50, std::numeric_limits<size_t>::max()}) {
    const absl::Status status = HugeBuffer::Allocate(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                testing::MatchesRegex("need " + std::to_string(bytes >> 20) + " MiB of memory, [0-9]+ MiB are free"));
  }
}

TEST(HugeBufferTest, MovesItsMemory) {
  HugeBuffer first = Make(2 * kMiB);
  std::byte* const memory = first.data();
  memory[5] = std::byte{42};
  HugeBuffer second = std::move(first);
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.data()[5], std::byte{42});
  HugeBuffer third = Make(4 * kMiB);
  third = std::move(second);
  EXPECT_EQ(third.data(), memory);
  EXPECT_EQ(third.size(), 2 * kMiB);
}

}  // namespace
}  // namespace kvrelay
