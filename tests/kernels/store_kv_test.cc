// Rounding of keys and values to the cache type, and where they are put.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/kernel_sets.h"
#include "tests/kernels/test_data.h"
#include "tests/reference/reference_kernels.h"

namespace kvrelay::kernels::testing {
namespace {

constexpr int kHeadDim = 64;

struct Block {
  explicit Block(KvType type, int head_dim = kHeadDim, std::byte background = std::byte{0xEE})
      : k(kBlockPositions * KvRowBytes(type, head_dim), background), v(k) {}
  std::vector<std::byte> k, v;
};

// Where an element of a slot lies in K and in V, by the documented layout: values, then scales.
struct Element {
  size_t k, v, bytes;
};
std::vector<Element> ElementsOf(KvType type, int head_dim, int slot) {
  std::vector<Element> elements;
  const auto add = [&](size_t from, int count, size_t bytes) {
    for (int i = 0; i < count; ++i) {
      elements.push_back(
          {from + ((slot / 16 * count + i) * 16 + slot % 16) * bytes, from + (slot * count + i) * bytes, bytes});
    }
  };
  add(0, head_dim, type == KvType::kInt8 ? 1 : type == KvType::kF32 ? 4 : 2);
  if (type == KvType::kInt8) add(size_t{kBlockPositions} * head_dim, head_dim / kKvScaleDims, 2);
  return elements;
}

// The values of a slot.
std::vector<float> Read(KvType type, const std::vector<std::byte>& block, int head_dim, int slot,
                        size_t Element::*place) {
  const std::vector<Element> elements = ElementsOf(type, head_dim, slot);
  const auto word = [&](int i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &block[elements[i].*place], elements[i].bytes);
    return bits;
  };
  const auto half = [&](int i) { return static_cast<float>(reference::HalfValue(static_cast<uint16_t>(word(i)))); };
  std::vector<float> out;
  for (int i = 0; i < head_dim; ++i) {
    if (type == KvType::kF16) out.push_back(half(i));
    if (type == KvType::kBf16) out.push_back(std::bit_cast<float>(word(i) << 16));
    if (type == KvType::kF32) out.push_back(std::bit_cast<float>(word(i)));
    if (type == KvType::kInt8) out.push_back(static_cast<int8_t>(word(i)) * half(head_dim + i / kKvScaleDims));
  }
  return out;
}

// Stored by every kernel set, read back: equal to the reference as numbers.
void ExpectHolds(KvType type, const std::vector<float>& k, const std::vector<float>& v) {
  const int head_dim = static_cast<int>(k.size());
  const std::vector<float> want_k = reference::RoundedToCache(type, k), want_v = reference::RoundedToCache(type, v);
  for (const KernelSet& set : SetsUnderTest()) {
    Block block(type, head_dim);
    ASSERT_TRUE(set.kernels->store_kv(type, k.data(), v.data(), head_dim, 21, block.k.data(), block.v.data()));
    ASSERT_EQ(Read(type, block.k, head_dim, 21, &Element::k), want_k) << set.name;
    ASSERT_EQ(Read(type, block.v, head_dim, 21, &Element::v), want_v) << set.name;
  }
}

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

TEST(StoreKvTest, EveryTypeHoldsWhatTheReferenceHolds) {
  std::mt19937 random(5);
  for (const KvType type : kAllKvTypes) {
    for (const float size : {1.0f, 1e-3f, 1e-5f, 1e-8f, 1e-42f, 60000.0f}) {
      std::vector<float> k = RandomFloats(random, 256, Values::kNormal), v = RandomFloats(random, 256, Values::kNormal);
      for (float& value : k) value = std::clamp(value * size, -65504.0f, 65504.0f);
      for (float& value : v) value = std::clamp(value * size, -65504.0f, 65504.0f);
      std::fill_n(v.begin() + 32, 32, 0.0f);
      ExpectHolds(type, k, v);
    }
  }
}

TEST(StoreKvTest, Bf16RoundsToNearestEvenEverywhere) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x7F7F; bits += 5) {
    const auto low = std::bit_cast<float>(bits << 16);
    const auto middle = std::bit_cast<float>(bits << 16 | 0x8000);
    for (const float x : {low, std::nextafter(middle, 0.0f), middle, -std::nextafter(middle, 2 * middle)}) {
      values.push_back(x);
    }
  }
  values.resize(values.size() / kHeadDim * kHeadDim);
  for (size_t at = 0; at < values.size(); at += kHeadDim) {
    const std::vector<float> row(values.begin() + at, values.begin() + at + kHeadDim);
    ExpectHolds(KvType::kBf16, row, row);
  }
}

TEST(StoreKvTest, Int8RoundsTiesToEvenAndClamps) {
  std::vector<float> ties(kHeadDim), clamped(kHeadDim);
  for (int i = 0; i < kHeadDim; ++i) ties[i] = 0.25f * (static_cast<float>(i - 32) + 0.5f);
  ties[0] = ties[kHeadDim - 1] = 0.25f * 127;  // a scale of exactly 1/4 in both blocks
  // The scale is a denormal half: 1.4 units, rounded down to 1, so that the largest values exceed 127 of it.
  for (int i = 0; i < kHeadDim; ++i) clamped[i] = 0x1p-24f * 1.4f * static_cast<float>(i % 2 == 0 ? 127 : -127);
  const std::vector<float> rounded = reference::RoundedToCache(KvType::kInt8, ties);
  EXPECT_EQ(rounded[31], 0.0f) << "-1/2";
  EXPECT_EQ(rounded[33], 0.25f * 2) << "3/2";
  EXPECT_EQ(rounded[34], 0.25f * 2) << "5/2";
  EXPECT_EQ(reference::RoundedToCache(KvType::kInt8, clamped)[1], -127 * 0x1p-24f);
  ExpectHolds(KvType::kInt8, ties, clamped);
}

// Half a step of the scale, which is the largest magnitude / 127 within half an ulp of f16; and the clamp.
TEST(StoreKvTest, Int8IsNearEveryValue) {
  std::mt19937 random(6);
  const std::vector<float> values = RandomFloats(random, 32 * 1000, Values::kNormal);
  const std::vector<float> rounded = reference::RoundedToCache(KvType::kInt8, values);
  for (size_t block = 0; block < values.size(); block += 32) {
    float max = 0;
    for (size_t i = block; i < block + 32; ++i) max = std::max(max, std::abs(values[i]));
    for (size_t i = block; i < block + 32; ++i) ASSERT_NEAR(rounded[i], values[i], max / 127 * 0.5005f);
  }
}

TEST(StoreKvTest, PutsEverySlotInItsPlaceAndTouchesNoOther) {
  for (const KernelSet& set : SetsUnderTest()) {
    for (const KvType type : kAllKvTypes) {
      for (const int head_dim : {32, 64, 80, 256}) {
        if (type == KvType::kInt8 && head_dim % kKvScaleDims != 0) continue;
        for (const int slot : {0, 1, 15, 16, 37, 63}) {
          std::vector<float> k(head_dim), v(head_dim);
          for (int i = 0; i < head_dim; ++i) {
            k[i] = static_cast<float>(i + 1);
            v[i] = static_cast<float>(-i - 1);
          }
          // Bytes that were written are those that are equal whatever was there before.
          Block block(type, head_dim, std::byte{0xEE}), other(type, head_dim, std::byte{0x11});
          std::vector<bool> written_k(block.k.size()), written_v(block.k.size());
          for (const Element& e : ElementsOf(type, head_dim, slot)) {
            for (size_t i = 0; i < e.bytes; ++i) written_k[e.k + i] = written_v[e.v + i] = true;
          }
          for (Block* b : {&block, &other}) {
            EXPECT_TRUE(set.kernels->store_kv(type, k.data(), v.data(), head_dim, slot, b->k.data(), b->v.data()));
          }
          for (size_t i = 0; i < written_k.size(); ++i) {
            ASSERT_EQ(block.k[i] == other.k[i], written_k[i]) << set.name << " slot " << slot << " byte " << i;
            ASSERT_EQ(block.v[i] == other.v[i], written_v[i]) << set.name << " slot " << slot << " byte " << i;
          }
          EXPECT_EQ(Read(type, block.k, head_dim, slot, &Element::k), reference::RoundedToCache(type, k)) << set.name;
          EXPECT_EQ(Read(type, block.v, head_dim, slot, &Element::v), reference::RoundedToCache(type, v)) << set.name;
        }
      }
    }
  }
}

TEST(StoreKvTest, ReportsWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KernelSet& set : SetsUnderTest()) {
    for (const KvType type : kAllKvTypes) {
      // Large ones overflow f16, the scale of int8, or bf16.
      for (const float bad : {infinity, -infinity, nan, -nan, std::bit_cast<float>(0x7F800001u),
                              std::bit_cast<float>(0xFFFFFFFFu), 65520.0f, 8321000.0f, 8321040.0f, -1e30f, 3.4e38f}) {
        for (const int at : {0, 1, 15, 16, kHeadDim - 1}) {
          std::vector<float> good(kHeadDim, 65519.0f);
          std::vector<float> spoiled = good;
          spoiled[at] = bad;
          const bool finite = std::isfinite(reference::RoundedToCache(type, spoiled)[at]);
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
