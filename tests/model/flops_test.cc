// Operations of a run, counted one product after the other.
#include "common/model/flops.h"

#include <gtest/gtest.h>

#include <utility>

namespace kvrelay::model {
namespace {

ModelConfig Config() {
  ModelConfig c{};
  c.layers = 3;
  c.width = 20;
  c.ffn_width = 50;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.vocabulary = 100;
  return c;
}

// What Forward does for inputs at [first, end) of which the last wants logits.
uint64_t Counted(const ModelConfig& c, uint64_t first, uint64_t end) {
  uint64_t flops = 0;
  const auto product = [&](uint64_t rows, uint64_t inputs) { flops += 2 * rows * inputs; };
  for (int layer = 0; layer < c.layers; ++layer) {
    for (uint64_t position = first; position < end; ++position) {
      product(c.heads * c.head_dim, c.width);         // Q
      product(2 * c.kv_heads * c.head_dim, c.width);  // K, V
      if (layer == c.layers - 1 && position + 1 < end) continue;
      for (int head = 0; head < c.heads; ++head) {
        product(position + 1, c.head_dim);  // scores
        product(c.head_dim, position + 1);  // values
      }
      product(c.width, c.heads * c.head_dim);
      product(2 * c.ffn_width, c.width);
      product(c.width, c.ffn_width);
    }
  }
  product(c.vocabulary, c.width);
  return flops;
}

TEST(RunFlops, EqualsTheProductsOneByOne) {
  const ModelConfig c = Config();
  for (const auto& [first, end] : {std::pair<uint64_t, uint64_t>{0, 1}, {0, 7}, {6, 7}, {3, 200}}) {
    uint64_t pairs = 0;
    for (uint64_t position = first; position < end; ++position) pairs += position + 1;
    EXPECT_EQ(RunFlops(c, end - first, pairs, end), Counted(c, first, end)) << first << " to " << end;
  }
}

TEST(RunFlops, OfOneLayer) {
  ModelConfig c = Config();
  c.layers = 1;
  EXPECT_EQ(RunFlops(c, 5, 15, 5), Counted(c, 0, 5));
}

}  // namespace
}  // namespace kvrelay::model
