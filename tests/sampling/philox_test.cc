#include "common/sampling/philox.h"

#include <gtest/gtest.h>

#include "common/sampling/sampler.h"

namespace kvrelay::sampling {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers published with the Random123 library of the paper's authors (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomUniform, Is24BitsOfTheFirstWord) {
  EXPECT_EQ(RandomUniform(0, 0, 0), static_cast<float>(0x6627e8) / 16777216.0f);
  // All arguments matter, and their high halves too.
  const float base = RandomUniform(5, 0, 9);
  EXPECT_EQ(base, RandomUniform(5, 0, 9));
  for (float other : {RandomUniform(6, 0, 9), RandomUniform(5, 1, 9), RandomUniform(5, 0, 10),
                      RandomUniform(5 + (uint64_t{1} << 32), 0, 9), RandomUniform(5, 0, 9 + (uint64_t{1} << 32))})
    EXPECT_NE(other, base);
}

TEST(RandomUniform, StaysBelowOneForExtremeSeeds) {
  for (uint64_t seed : {uint64_t{0}, ~uint64_t{0}})
    for (uint64_t position = 0; position < 20000; ++position) {
      const float u = RandomUniform(seed, 0, position);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      ASSERT_EQ(u * 16777216.0f, static_cast<float>(static_cast<uint32_t>(u * 16777216.0f)));
    }
}

}  // namespace
}  // namespace kvrelay::sampling
