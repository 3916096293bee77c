// What a run costs in floating point operations.
#pragma once

#include <cstdint>

#include "common/model/config.h"

namespace kvrelay::model {

// Operations of matrix products and attention in a run over `positions` input positions with `pairs` (query, key) pairs
// per head and layer that ends with the logits of one position, which attends to `last_pairs` keys. A multiplication
// and an addition are one each, and what Forward leaves out is left out: behind the last layer's keys and values only
// the position whose logits are wanted goes on. Norms, rotations, softmax and activations are not counted.
//
//   2 * (positions * (layers * QKV + (layers - 1) * rest) + rest + head) + 4 * q_width * ((layers - 1) * pairs +
//   last_pairs)
//
// where QKV, rest (output, gate, up, down) and head are the sizes of the matrices.
uint64_t RunFlops(const ModelConfig& config, uint64_t positions, uint64_t pairs, uint64_t last_pairs);

}  // namespace kvrelay::model
