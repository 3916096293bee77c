// Shape of a model and what its family computes otherwise than Llama, read and checked from its file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/rope_table.h"
#include "common/model_file/model_file.h"

namespace kvrelay::model {

struct ModelConfig {
  std::string name;          // general.name, or the architecture
  std::string architecture;  // "llama", "qwen2", ...
  int layers;
  int width;  // of the residual stream
  int ffn_width;
  int heads;
  int kv_heads;   // divides heads
  int head_dim;   // a multiple of 16
  int rope_dims;  // rotated dims of each head, even, at most head_dim
  // The file rotates dimension i with i + rope_dims / 2; loading puts such pairs side by side. Otherwise 2i with 2i
  // + 1.
  bool rotates_halves;
  int unrotated_every;  // each n-th layer has no rotary positions; 0: all have them
  bool needs_qkv_bias;  // must have one; a family that need not may all the same
  bool fuses_matrices;  // the file has Q, K and V in one tensor, gate and up in another
  bool has_head_norms;  // each head's query and key is normed before it is rotated
  float rope_theta;
  RopeScaling rope_scaling;
  float norm_epsilon;
  int context_length;  // within the attention window, if the file names one: there, windowed attention is full
                       // attention
  int vocabulary;
};

// INVALID_ARGUMENT or NOT_FOUND naming the key if a value is absent, out of range or inconsistent; UNIMPLEMENTED for
// another architecture, for a key of the architecture that is not known, and for a known one that asks for what is not
// built.
absl::StatusOr<ModelConfig> ReadModelConfig(const model_file::ModelFile& file);

}  // namespace kvrelay::model
