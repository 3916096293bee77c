// Promise 1: the bits of a request do not depend on how it is executed. A covering set of pairs on the first two layers
// of the default model (all its widths), named rows on the whole model, and pairs with every type of weights on tiny
// models. kvrelay_bits has the larger set.
#include "tests/engine/same_bits.h"

#include <gtest/gtest.h>

#include "tests/engine/bits_checker.h"
#include "tests/engine/covering.h"
#include "tests/testing/encode_weights.h"

namespace kvrelay::testing {
namespace {

using kernels::Isa;
using kv::KvType;

constexpr int kPromptLength = 700;  // crosses ten block edges and one range edge

BitsChecker& TwoLayers() {
  static auto* const checker = new BitsChecker(kPromptLength, 2);
  return *checker;
}

TEST(SameBits, PairsOnTwoLayers) {
  for (const BitsCase& c : CoveringCases(2, SupportedIsas(), /*with_scalar=*/false))
    EXPECT_EQ(TwoLayers().Problem(c, 2), "") << NameOf(c);
}

// The scalar kernels are slow: a row for every way and thread count. The tiny models have them with every cache type.
TEST(SameBits, ScalarOnTwoLayers) {
  const Isa isa = Isa::kScalar;
  for (const BitsCase& c : {
           BitsCase{.way = Way::kLocal, .chunk = 8192, .threads = 2, .batch = 1, .isa = isa, .kv_type = KvType::kF32},
           BitsCase{.way = Way::kSplit, .chunk = 64, .threads = 2, .batch = 4, .isa = isa, .kv_type = KvType::kF16},
           BitsCase{.way = Way::kNoCache, .chunk = 512, .threads = 1, .batch = 1, .isa = isa, .kv_type = KvType::kF16},
       })
    EXPECT_EQ(TwoLayers().Problem(c, 2), "") << NameOf(c);
}

// What another request has left is as good as computed: in the prefill engine, in the decode engine, in both.
TEST(SameBits, ReusedPrefixOnTwoLayers) {
  for (const KvType type : kv::kAllKvTypes)
    for (const Way way : {Way::kLocal, Way::kSplit})
      for (const int chunk : {100, 8192}) {
        const BitsCase c{.way = way, .chunk = chunk, .isa = kernels::BestIsa(), .kv_type = type, .warm = true};
        EXPECT_EQ(TwoLayers().Problem(c, 2), "") << NameOf(c);
      }
}

// Every supported SIMD level on the whole model; the reference is the best level, one thread, whole prompt.
TEST(SameBits, NamedRowsOnTheWholeModel) {
  BitsChecker whole(kPromptLength, 0);
  for (Isa isa : SupportedIsas()) {
    if (isa == Isa::kScalar) continue;  // covered on two layers
    const BitsCase rows[] = {
        {.way = Way::kLocal, .chunk = 64, .threads = 2, .batch = 1, .isa = isa, .kv_type = KvType::kF16},
        {.way = Way::kSplit, .chunk = 512, .threads = 2, .batch = 1, .isa = isa, .kv_type = KvType::kF16},
        {.way = Way::kSplit, .chunk = 7, .threads = 2, .batch = 4, .isa = isa, .kv_type = KvType::kF16},
        {.way = Way::kNoCache, .chunk = 8192, .threads = 2, .batch = 1, .isa = isa, .kv_type = KvType::kF16},
        {.way = Way::kLocal, .chunk = 512, .threads = 1, .batch = 16, .isa = isa, .kv_type = KvType::kF16},
        {.way = Way::kLocal, .chunk = 8192, .threads = 2, .batch = 4, .isa = isa, .kv_type = KvType::kF32},
        {.way = Way::kSplit, .chunk = 64, .threads = 1, .batch = 1, .isa = isa, .kv_type = KvType::kF32},
        {.way = Way::kNoCache, .chunk = 512, .threads = 2, .batch = 4, .isa = isa, .kv_type = KvType::kF32},
    };
    for (const BitsCase& c : rows) EXPECT_EQ(whole.Problem(c, 2), "") << NameOf(c);
  }
}

// Every type of weights with every way, instruction set (scalar too) and so on.
TEST(SameBits, PairsWithEveryTypeOfWeights) {
  BitsChecker tiny(/*prompt_length=*/80, 0);
  for (const BitsCase& c : CoveringCases(2, SupportedIsas(), /*with_scalar=*/true, kAllTypes))
    EXPECT_EQ(tiny.Problem(c, 2), "") << NameOf(c);
}

// What other families compute otherwise than Llama: biases, norms of heads, layers without positions. Their heads are
// wider than width / heads, so a handoff's bytes are not those of the width.
TEST(SameBits, OtherFamilies) {
  BitsChecker tiny(/*prompt_length=*/80, 0);
  const auto weights = model_file::TensorType::kQ8_0;
  for (const char* architecture : {"qwen2", "qwen3", "smollm3"})
    for (const Isa isa : SupportedIsas())
      for (const BitsCase& c : {
               BitsCase{.way = Way::kSplit, .chunk = 7, .threads = 2, .batch = 4, .isa = isa, .kv_type = KvType::kF16},
               BitsCase{
                   .way = Way::kNoCache, .chunk = 64, .threads = 1, .batch = 1, .isa = isa, .kv_type = KvType::kF32},
               BitsCase{
                   .way = Way::kLocal, .chunk = 64, .threads = 2, .batch = 4, .isa = isa, .kv_type = KvType::kInt8},
           }) {
        BitsCase of_family = c;
        of_family.weights = weights;
        of_family.architecture = architecture;
        EXPECT_EQ(tiny.Problem(of_family, 2), "") << NameOf(of_family);
      }
}

// The comparison itself can fail: KV types are families of their own.
TEST(SameBits, DifferentNumericsDiffer) {
  for (const KvType a : kv::kAllKvTypes)
    for (const KvType b : kv::kAllKvTypes) {
      const auto first = TwoLayers().Reference({.kv_type = a}, 3), second = TwoLayers().Reference({.kv_type = b}, 3);
      ASSERT_TRUE(first.ok() && second.ok());
      EXPECT_EQ(Difference(*first, *second) == "", a == b) << kv::KvTypeName(a) << " " << kv::KvTypeName(b);
    }
}

}  // namespace
}  // namespace kvrelay::testing
