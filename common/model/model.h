// The weights of a model, packed for the chosen backend. Immutable after loading; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/kernels/matmul.h"
#include "common/model/config.h"
#include "common/tensor/huge_buffer.h"

namespace kvrelay::model {

struct LayerWeights {
  const float* attention_norm;  // [width]
  kernels::Matrix q, k, v;      // [heads * head_dim][width], [kv_heads * head_dim][width] twice; of each head the
                                // dimensions that are rotated together are neighbours
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;  // in the order of their matrices; null: none
  const float *q_norm = nullptr, *k_norm = nullptr;                     // [head_dim], likewise
  bool rotates = true;                                                  // has rotary positions
  kernels::Matrix o;                                                    // [width][heads * head_dim]
  const float* ffn_norm;                                                // [width]
  kernels::Matrix gate, up;                                             // [ffn_width][width]
  kernels::Matrix down;                                                 // [width][ffn_width]
};

class Model {
 public:
  // Reads and packs all weights. `layers` > 0 keeps only the first ones (tests). Errors name the tensor; one that the
  // architecture does not use is UNIMPLEMENTED.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const model_file::ModelFile& file, kernels::MatmulBackend backend,
                                                     kernels::Isa isa, int layers = 0);

  const ModelConfig& config() const { return config_; }
  const kernels::Kernels& kernels() const { return *kernels_; }
  kernels::MatmulBackend backend() const { return backend_; }
  // Type of most weights, for the numerics id: "Q4_1".
  const std::string& weight_format() const { return weight_format_; }
  const std::string& kernel_id() const { return kernel_id_; }
  // SHA-256 of the file.
  const std::string& fingerprint() const { return fingerprint_; }

  const kernels::Matrix& embedding() const { return embedding_; }  // [vocabulary][width]
  const kernels::Matrix& head() const { return head_; }            // the embedding itself when tied
  const float* output_norm() const { return output_norm_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  // Cosine and sine of every position and pair: [context_length][rope_dims / 2].
  const float* rope_cos(int position) const { return rope_cos_.data() + size_t(position) * config_.rope_dims / 2; }
  const float* rope_sin(int position) const { return rope_sin_.data() + size_t(position) * config_.rope_dims / 2; }
  size_t weight_bytes() const { return memory_.size(); }

 private:
  friend class ModelLoader;
  Model() = default;

  ModelConfig config_;
  const kernels::Kernels* kernels_ = nullptr;
  kernels::MatmulBackend backend_ = kernels::MatmulBackend::kNative;
  std::string weight_format_, kernel_id_, fingerprint_;
  HugeBuffer memory_;
  kernels::Matrix embedding_, head_;
  const float* output_norm_ = nullptr;
  std::vector<LayerWeights> layers_;
  std::vector<float> rope_cos_, rope_sin_;
};

}  // namespace kvrelay::model
