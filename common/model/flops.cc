#include "common/model/flops.h"

namespace kvrelay::model {

uint64_t RunFlops(const ModelConfig& c, uint64_t positions, uint64_t pairs, uint64_t last_pairs) {
  const uint64_t width = c.width, others = c.layers - 1;
  const uint64_t q_width = uint64_t(c.heads) * c.head_dim, kv_width = uint64_t(c.kv_heads) * c.head_dim;
  const uint64_t qkv = width * (q_width + 2 * kv_width), rest = q_width * width + 3 * width * c.ffn_width;
  const uint64_t head = width * c.vocabulary;
  return 2 * (positions * ((others + 1) * qkv + others * rest) + rest + head) +
         4 * q_width * (others * pairs + last_pairs);
}

}  // namespace kvrelay::model
