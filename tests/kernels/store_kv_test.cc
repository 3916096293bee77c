// Rounding of keys and values to the cache type, and where they are put.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/kernel_sets.h"
#include "tests/kernels/test_data.h"
#include "tests/reference/reference_kernels.h"

namespace kvrelay::kernels::testing {
namespace {

constexpr int kHeadDim = 64;

struct Block {
  explicit Block(KvType type, int head_dim = kHeadDim)
      : k(kBlockPositions * head_dim * (type == KvType::kF16 ? 2 : 4), std::byte{0xEE}), v(k) {}
  std::vector<std::byte> k, v;
};

uint16_t HalfAt(const std::vector<std::byte>& block, size_t index) {
  uint16_t half;
  std::memcpy(&half, block.data() + 2 * index, sizeof(half));
  return half;
}

// The floats around every boundary where the rounding to f16 changes.
std::vector<float> RoundingBoundaries() {
  std::vector<float> out;
  for (uint32_t half = 0; half < 0x7C00; ++half) {
    const auto low = static_cast<float>(reference::HalfValue(static_cast<uint16_t>(half)));
    const float high = half == 0x7BFF ? 65536.0f : static_cast<float>(reference::HalfValue(half + 1));
    const float middle = low + (high - low) / 2;
    for (const float x : {low, std::nextafter(low, high), std::nextafter(middle, low), middle,
                          std::nextafter(middle, high), std::nextafter(high, low)}) {
      out.push_back(x);
      out.push_back(-x);
    }
  }
  for (const float x : {1e-45f, 1e-30f, 65536.0f, 1e10f, std::numeric_limits<float>::infinity()}) {
    out.push_back(x);
    out.push_back(-x);
  }
  out.resize((out.size() + kHeadDim - 1) / kHeadDim * kHeadDim);
  return out;
}

// Nearest, ties to even, by comparing distances in double.
uint16_t NearestHalf(float x) {
  const double magnitude = std::abs(static_cast<double>(x));
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (magnitude >= 65520) return sign | 0x7C00;
  int low = 0;
  int high = 0x7BFF;
  while (low < high) {  // the largest half not above the magnitude
    const int middle = (low + high + 1) / 2;
    if (reference::HalfValue(static_cast<uint16_t>(middle)) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low == 0x7BFF) return sign | 0x7BFF;
  const double below = magnitude - reference::HalfValue(static_cast<uint16_t>(low));
  const double above = reference::HalfValue(static_cast<uint16_t>(low + 1)) - magnitude;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<uint16_t>(sign | (low + (up ? 1 : 0)));
}

TEST(StoreKvTest, RoundsToNearestEvenEverywhere) {
  const std::vector<float> values = RoundingBoundaries();
  for (const KernelSet& set : SetsUnderTest()) {
    Block block(KvType::kF16);
    for (size_t at = 0; at < values.size(); at += kHeadDim) {
      bool finite = true;
      for (int i = 0; i < kHeadDim; ++i) finite &= std::abs(values[at + i]) < 65520;
      ASSERT_EQ(
          set.kernels->store_kv(KvType::kF16, &values[at], &values[at], kHeadDim, 0, block.k.data(), block.v.data()),
          finite);
      for (int i = 0; i < kHeadDim; ++i) {
        const uint16_t want = NearestHalf(values[at + i]);
        ASSERT_EQ(HalfAt(block.k, i * 16), want) << set.name << ": " << values[at + i];
        ASSERT_EQ(HalfAt(block.v, i), want) << set.name << ": " << values[at + i];
      }
    }
  }
}

TEST(StoreKvTest, PutsEverySlotInItsPlaceAndTouchesNoOther) {
  for (const KernelSet& set : SetsUnderTest()) {
    for (const int head_dim : {16, 64, 80, 256}) {
      for (const int slot : {0, 1, 15, 16, 37, 63}) {
        std::vector<float> k(head_dim), v(head_dim);
        for (int i = 0; i < head_dim; ++i) {
          k[i] = static_cast<float>(i + 1);
          v[i] = static_cast<float>(-i - 1);
        }
        Block block(KvType::kF32, head_dim);
        Block want(KvType::kF32, head_dim);
        for (int i = 0; i < head_dim; ++i) {
          std::memcpy(want.k.data() + 4 * ((slot / 16 * head_dim + i) * 16 + slot % 16), &k[i], 4);
          std::memcpy(want.v.data() + 4 * (slot * head_dim + i), &v[i], 4);
        }
        EXPECT_TRUE(
            set.kernels->store_kv(KvType::kF32, k.data(), v.data(), head_dim, slot, block.k.data(), block.v.data()));
        EXPECT_EQ(block.k, want.k) << set.name << " slot " << slot;
        EXPECT_EQ(block.v, want.v) << set.name << " slot " << slot;
      }
    }
  }
}

TEST(StoreKvTest, ReportsWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KernelSet& set : SetsUnderTest()) {
    for (const KvType type : {KvType::kF16, KvType::kF32}) {
      for (const float bad : {infinity, -infinity, nan, -nan, 65520.0f, -1e30f}) {
        const bool finite = type == KvType::kF32 && std::isfinite(bad);  // large ones overflow f16 only
        for (const int at : {0, 1, 15, 16, kHeadDim - 1}) {
          std::vector<float> good(kHeadDim, 65519.0f);
          std::vector<float> spoiled = good;
          spoiled[at] = bad;
          Block block(type);
          const auto store = [&](const std::vector<float>& k, const std::vector<float>& v) {
            return set.kernels->store_kv(type, k.data(), v.data(), kHeadDim, 5, block.k.data(), block.v.data());
          };
          EXPECT_TRUE(store(good, good));
          EXPECT_EQ(store(spoiled, good), finite) << set.name << " key " << bad;
          EXPECT_EQ(store(good, spoiled), finite) << set.name << " value " << bad;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvrelay::kernels::testing
