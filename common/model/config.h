// Shape of a Llama-family model, read and checked from its file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model_file/gguf.h"

namespace kvrelay::model {

struct ModelConfig {
  std::string name;          // general.name, or the architecture
  std::string architecture;  // "llama"
  int layers;
  int width;  // of the residual stream
  int ffn_width;
  int heads;
  int kv_heads;   // divides heads
  int head_dim;   // a multiple of 16
  int rope_dims;  // rotated dims of each head, even, at most head_dim
  float rope_theta;
  float norm_epsilon;
  int context_length;
  int vocabulary;
};

// INVALID_ARGUMENT naming the key if a value is absent, out of range or inconsistent; UNIMPLEMENTED for another
// architecture.
absl::StatusOr<ModelConfig> ReadModelConfig(const model_file::GgufFile& file);

}  // namespace kvrelay::model
