// The buffers of one forward pass, all cut out of one huge-page allocation. Row counts are the upper bounds given at
// creation.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/matmul.h"
#include "common/model/config.h"
#include "common/tensor/huge_buffer.h"

namespace kvrelay::model {

struct Workspace {
  static absl::StatusOr<Workspace> Create(const ModelConfig& config, int max_rows, int max_logits, int max_positions,
                                          int threads);

  int width_stride, q_stride, kv_stride, ffn_stride, vocabulary_stride;  // floats between rows, multiples of 16
  float* x;                                                              // [rows][width_stride], the residual stream
  float* q;                                                              // [rows][q_stride]
  float* k;                                                              // [rows][kv_stride]
  float* v;                                                              // [rows][kv_stride]
  float* gate;                                                           // [rows][ffn_stride]
  float* up;                                                             // [rows][ffn_stride]
  float* logits;                                                         // [max_logits][vocabulary_stride]
  kernels::Activations normed;                                           // [rows][width]
  kernels::Activations attended;                                         // [rows][heads * head_dim]
  kernels::Activations inner;                                            // [rows][ffn_width]
  kernels::Activations final;                                            // [max_logits][width]
  float* attention_scratch;                                              // [threads][scratch_stride]
  size_t scratch_stride;
  const std::byte** block_pointers;  // [threads][2][blocks of max_positions]
  int pointers_per_list;

 private:
  HugeBuffer memory_;
};

// The writable values of an Activations (it is read-only to kernels).
inline float* Values(const kernels::Activations& a) { return const_cast<float*>(a.f32); }

}  // namespace kvrelay::model
