// How attention divides one thread's scratch memory. Every part starts at a multiple of 64 bytes.
#pragma once

#include <cstddef>

#include "common/kernels/kernel_types.h"

namespace kvrelay::kernels {

// Queries for which a block is converted once. 48 x 64 dims of sums and totals are 24 KiB beside 32 KiB of keys and
// values: together well inside a second-level cache. A multiple of every tile height.
inline constexpr int kAttentionQueries = 48;
// Upper limit of the queries of a sub-tile.
inline constexpr int kAttentionSubTile = 16;

struct AttentionScratch {
  float* k;  // one block in f32
  float* v;
  float* acc;        // [kAttentionQueries][head_dim], sums within the current range
  float* total_acc;  // the same over the finished ranges
  float* scores;     // [kAttentionSubTile][kBlockPositions]
  float* max;        // [kAttentionQueries] each
  float* sum;
  float* total_max;
  float* total_sum;
};

// Static, not inline: each kernel file must have its own copies, compiled with its own flags.
static inline size_t AttentionBlockFloats(int head_dim) { return static_cast<size_t>(kBlockPositions) * head_dim; }
static inline size_t AttentionSumFloats(int head_dim) { return static_cast<size_t>(kAttentionQueries) * head_dim; }

static inline AttentionScratch DivideAttentionScratch(float* scratch, int head_dim) {
  AttentionScratch s;
  s.k = scratch;
  s.v = s.k + AttentionBlockFloats(head_dim);
  s.acc = s.v + AttentionBlockFloats(head_dim);
  s.total_acc = s.acc + AttentionSumFloats(head_dim);
  s.scores = s.total_acc + AttentionSumFloats(head_dim);
  s.max = s.scores + kAttentionSubTile * kBlockPositions;
  s.sum = s.max + kAttentionQueries;
  s.total_max = s.sum + kAttentionQueries;
  s.total_sum = s.total_max + kAttentionQueries;
  return s;
}

}  // namespace kvrelay::kernels
