// Promise 1: the bits of a request do not depend on how it is executed. A covering set of pairs on the first two layers
// of the default model (all its widths), and named rows on the whole model. kvrelay_bits has the larger set.
#include "tests/engine/same_bits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/engine/covering.h"
#include "tests/model/test_model.h"

namespace kvrelay::testing {
namespace {

using kernels::Isa;
using kv::KvType;

constexpr int kPromptLength = 700;  // crosses ten block edges and one range edge

// Models of this process, loaded once per (instruction set, layers).
const model::Model& ModelFor(Isa isa, int layers) {
  static auto* models = new std::map<std::pair<Isa, int>, std::unique_ptr<model::Model>>;
  auto& model = (*models)[{isa, layers}];
  if (model == nullptr) model = LoadTestModel(kernels::MatmulBackend::kNative, isa, layers);
  EXPECT_EQ(model->kernel_id(), kernels::IsaName(isa));
  EXPECT_EQ(model->kernels().isa, isa);
  return *model;
}

const BitsResult& Reference(KvType kv_type, int layers, int count) {
  static auto* results = new std::map<std::tuple<KvType, int, int>, BitsResult>;
  auto [it, is_new] = results->try_emplace({kv_type, layers, count});
  if (is_new) {
    const Isa isa = kernels::BestIsa();
    const model::Model& model = ModelFor(isa, layers);
    auto result = RunCase(model, {.isa = isa, .kv_type = kv_type},
                          MakePrompt(kPromptLength, model.config().vocabulary, 1), count);
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) it->second = *std::move(result);
    EXPECT_EQ(it->second.logits.size(), size_t(count));
  }
  return it->second;
}

void ExpectSameBits(const BitsCase& c, int layers, int count) {
  SCOPED_TRACE(NameOf(c));
  const model::Model& model = ModelFor(c.isa, layers);
  auto result = RunCase(model, c, MakePrompt(kPromptLength, model.config().vocabulary, 1), count);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Difference(Reference(c.kv_type, layers, count), *result), "");
  if (c.batch > 1) EXPECT_GE(result->rows_in_step_max, static_cast<uint32_t>(c.batch)) << "the batch shared no step";
}

TEST(SameBits, PairsOnTwoLayers) {
  for (const BitsCase& c : CoveringCases(2, SupportedIsas(), /*with_scalar=*/false)) ExpectSameBits(c, 2, 3);
}

// The scalar kernels are slow: a row for every way, thread count and cache type.
TEST(SameBits, ScalarOnTwoLayers) {
  const Isa isa = Isa::kScalar;
  ExpectSameBits({.way = Way::kLocal, .chunk = 8192, .threads = 2, .batch = 1, .isa = isa, .kv_type = KvType::kF32}, 2,
                 2);
  ExpectSameBits({.way = Way::kSplit, .chunk = 64, .threads = 2, .batch = 4, .isa = isa, .kv_type = KvType::kF16}, 2,
                 2);
  ExpectSameBits({.way = Way::kNoCache, .chunk = 512, .threads = 1, .batch = 1, .isa = isa, .kv_type = KvType::kF16}, 2,
                 2);
}

// Every supported SIMD level on the whole model; the reference is the best level, one thread, whole prompt.
TEST(SameBits, NamedRowsOnTheWholeModel) {
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
    for (const BitsCase& c : rows) ExpectSameBits(c, 0, 3);
  }
}

// The comparison itself can fail: KV types are two families.
TEST(SameBits, DifferentNumericsDiffer) {
  EXPECT_NE(Difference(Reference(KvType::kF16, 2, 3), Reference(KvType::kF32, 2, 3)), "");
}

}  // namespace
}  // namespace kvrelay::testing
