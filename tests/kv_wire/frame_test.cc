#include "common/kv_wire/frame.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

namespace kvrelay::kv_wire {
namespace {

absl::Span<const std::byte> Bytes(std::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

// Bit by bit, as the polynomial is defined.
uint32_t NaiveCrc32c(std::string_view text) {
  uint32_t crc = ~0u;
  for (unsigned char byte : text) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(ExtendCrc32c(0, Bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(ExtendCrc32c(0, {}), 0u);
  EXPECT_EQ(ExtendCrc32c(0, Bytes(std::string(32, '\0'))), 0x8a9136aau) << "RFC 3720, B.4";
}

TEST(Crc32c, AgreesWithTheDefinitionAtAllLengthsAndSplits) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 37 + i / 7);
  for (size_t length = 0; length <= text.size(); length += 1 + length / 9) {
    const std::string_view part = std::string_view(text).substr(text.size() - length);
    EXPECT_EQ(ExtendCrc32c(0, Bytes(part)), NaiveCrc32c(part)) << length;
    EXPECT_EQ(ExtendCrc32c(ExtendCrc32c(0, Bytes(part.substr(0, length / 3))), Bytes(part.substr(length / 3))),
              NaiveCrc32c(part));
  }
}

TEST(Frame, ChecksumCoversTheFieldsInTheDocumentedForm) {
  worker::v1::KvFrame frame;
  frame.set_layer(0x01020304);
  frame.set_first_position(5);
  frame.set_positions(0x80000000);
  frame.set_payload("payload");
  EXPECT_EQ(FrameCrc32c(frame), NaiveCrc32c(std::string("\4\3\2\1\5\0\0\0\0\0\0\x80payload", 19)));
}

TEST(Frame, IsBuiltFromTheCacheAndReusesItsMemory) {
  const kv::KvLayout layout{.layers = 2, .kv_heads = 1, .head_dim = 16, .type = kv::KvType::kF16};
  auto pool = *kv::BlockPool::Create(layout, 2);
  auto cache = *kv::SequenceCache::Reserve(pool.get(), 100);
  const std::string sent(3 * layout.PositionBytes(), 'k');
  cache->CopyIn(1, 70, 3, Bytes(sent));
  worker::v1::KvFrame frame;
  BuildFrame(*cache, {.layer = 0, .first_position = 0, .positions = 64}, &frame);
  EXPECT_EQ(frame.payload().size(), 64 * layout.PositionBytes());
  BuildFrame(*cache, {.layer = 1, .first_position = 70, .positions = 3}, &frame);
  EXPECT_EQ(frame.layer(), 1u);
  EXPECT_EQ(frame.first_position(), 70u);
  EXPECT_EQ(frame.positions(), 3u);
  EXPECT_EQ(frame.payload(), sent);
  EXPECT_EQ(frame.crc32c(), FrameCrc32c(frame));
}

TEST(PayloadBytes, IsTheFormulaWithoutOverflow) {
  const kv::KvLayout layout{.layers = 200, .kv_heads = 64, .head_dim = 256, .type = kv::KvType::kF32};
  EXPECT_EQ(PayloadBytes(layout, 3, 3 + 1000000), 200ull * 1000000 * (2 * 64 * 256 * 4));
}

// A cache of one head.
bool Finite(kv::KvType type, const void* values, size_t bytes, int head_dim = 32) {
  const kv::KvLayout layout{.layers = 1, .kv_heads = 1, .head_dim = head_dim, .type = type};
  return AllFinite(layout, absl::MakeConstSpan(static_cast<const std::byte*>(values), bytes));
}

// Every value of 16 bits there is, in every lane.
TEST(AllFinite, AllF16AndBf16Values) {
  for (const auto& [type, exponent] : {std::pair{kv::KvType::kF16, 0x7c00u}, {kv::KvType::kBf16, 0x7f80u}}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      uint16_t values[11] = {};
      values[bits % 11] = static_cast<uint16_t>(bits);
      ASSERT_EQ(Finite(type, values, sizeof(values)), (bits & exponent) != exponent) << bits;
    }
  }
}

// Every scale there is, at every place; what the values are is the same to it.
TEST(AllFinite, AllInt8Scales) {
  constexpr int kPositions = 3, kRow = 64 + 2 * 2;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    std::string payload;
    for (int p = 0; p < 2 * kPositions; ++p) payload += std::string(64, '\xff') + std::string(4, '\0');
    const uint32_t scale = bits % (4 * kPositions);
    const auto half = static_cast<uint16_t>(bits);
    std::memcpy(&payload[scale / 2 * kRow + 64 + scale % 2 * 2], &half, sizeof(half));
    ASSERT_EQ(Finite(kv::KvType::kInt8, payload.data(), payload.size(), 64), (bits & 0x7c00) != 0x7c00) << bits;
  }
}

TEST(AllFinite, F32) {
  using Limits = std::numeric_limits<float>;
  for (int lane = 0; lane < 5; ++lane) {
    const auto check = [lane](float value) {
      float values[5] = {-1, Limits::max(), Limits::denorm_min(), -0.0f, Limits::lowest()};
      values[lane] = value;
      return Finite(kv::KvType::kF32, values, sizeof(values));
    };
    for (float good : {0.0f, Limits::max(), Limits::lowest(), Limits::min(), -Limits::denorm_min()})
      EXPECT_TRUE(check(good));
    for (float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::signaling_NaN(),
                      std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0xffffffffu)})
      EXPECT_FALSE(check(bad));
  }
  for (kv::KvType type : kv::kAllKvTypes) EXPECT_TRUE(Finite(type, nullptr, 0));
}

}  // namespace
}  // namespace kvrelay::kv_wire
