#include "common/model/config.h"

#include <algorithm>
#include <climits>
#include <iterator>

#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/model/metadata_reader.h"
#include "common/model/rope_scaling.h"

namespace kvrelay::model {
namespace {

using model_file::ModelFile;

// What tells one family from another in the forward pass. Mistral's files are of architecture "llama".
struct Family {
  const char* architecture;
  bool rotates_halves = false;
  int unrotated_every = 0;
  bool needs_qkv_bias = false;
  bool has_head_norms = false;
  bool fuses_matrices = false;
};
constexpr Family kFamilies[] = {
    {.architecture = "llama"},
    {.architecture = "phi3", .rotates_halves = true, .fuses_matrices = true},
    {.architecture = "qwen2", .rotates_halves = true, .needs_qkv_bias = true},
    {.architecture = "qwen3", .rotates_halves = true, .has_head_norms = true},
    {.architecture = "smollm3", .unrotated_every = 4},
};

// Keys of an architecture's section that are read, or that say nothing about what is computed. rope.rotates_halves is
// ours: GGUF files have the rows of Llama's Q and K in an order that folders have not.
constexpr const char* kKnownKeys[] = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.rotates_halves",
    "rope.scale_linear",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.high_freq_factor",
    "rope.scaling.low_freq_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "tensor_data_layout",
    "vocab_size",
};

absl::StatusOr<Family> FamilyOf(const std::string& architecture) {
  for (const Family& family : kFamilies)
    if (family.architecture == architecture) return family;
  return absl::UnimplementedError(absl::StrCat(
      "architecture ", model_file::Quoted(architecture), " is not supported; supported: ",
      absl::StrJoin(kFamilies, ", ", [](std::string* out, const Family& f) { out->append(f.architecture); })));
}

absl::Status CheckKeys(const ModelFile& file, const std::string& prefix) {
  for (const std::string& key : file.Keys(prefix)) {
    const std::string own = key.substr(prefix.size());
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), own) == std::end(kKnownKeys))
      return absl::UnimplementedError(absl::StrCat("metadata key ", model_file::Quoted(key),
                                                   " is not known and may change what the model computes"));
  }
  return absl::OkStatus();
}

absl::Status CheckHeads(const ModelConfig& c) {
  if (c.heads % c.kv_heads != 0)
    return absl::InvalidArgumentError(absl::StrCat(c.kv_heads, " KV heads do not divide ", c.heads, " heads"));
  if (c.head_dim % 16 != 0 || c.head_dim > 256)
    return absl::UnimplementedError(absl::StrCat("head dimension ", c.head_dim, " is no multiple of 16 up to 256"));
  if (c.rope_dims % 2 != 0 || c.rope_dims > c.head_dim)
    return absl::InvalidArgumentError(
        absl::StrCat("rotated dimensions ", c.rope_dims, " must be even and at most ", c.head_dim));
  return absl::OkStatus();
}

// What Mixtral and bidirectional models say in the sections of families that are known.
absl::Status CheckIsPlainDecoder(const ModelFile& file, const std::string& prefix) {
  for (const char* key : {"expert_count", "expert_used_count"}) {
    if (file.Has(prefix + key) && file.GetUint(prefix + key).value_or(1) != 0)
      return absl::UnimplementedError(absl::StrCat(prefix, key, ": mixtures of experts are not supported"));
  }
  if (file.Has(prefix + "attention.causal") && !file.GetBool(prefix + "attention.causal").value_or(false))
    return absl::UnimplementedError(absl::StrCat(prefix, "attention.causal: only causal attention is supported"));
  return absl::OkStatus();
}

absl::Status ReadShape(const MetadataReader& read, ModelConfig& c) {
  KV_ASSIGN_OR_RETURN(c.layers, read.Int("block_count", 1, 1024));
  KV_ASSIGN_OR_RETURN(c.width, read.Int("embedding_length", 16, 1 << 17));
  KV_ASSIGN_OR_RETURN(c.ffn_width, read.Int("feed_forward_length", 16, 1 << 19));
  KV_ASSIGN_OR_RETURN(c.heads, read.Int("attention.head_count", 1, 1024));
  KV_ASSIGN_OR_RETURN(c.kv_heads, read.IntOr("attention.head_count_kv", 1, c.heads, c.heads));
  KV_ASSIGN_OR_RETURN(c.head_dim, read.IntOr("attention.key_length", 1, 1 << 12, c.width / c.heads));
  KV_RETURN_IF_ERROR(read.IntOr("attention.value_length", c.head_dim, c.head_dim, c.head_dim).status());
  KV_ASSIGN_OR_RETURN(c.rope_dims, read.IntOr("rope.dimension_count", 2, 1 << 12, c.head_dim));
  KV_ASSIGN_OR_RETURN(c.context_length, read.Int("context_length", 1, 1 << 20));
  KV_ASSIGN_OR_RETURN(const int window, read.IntOr("attention.sliding_window", 0, INT_MAX, 0));
  if (window > 0) c.context_length = std::min(c.context_length, window);
  KV_ASSIGN_OR_RETURN(c.rope_theta, read.FloatOr("rope.freq_base", 1.001, 1e12, 10000));
  KV_ASSIGN_OR_RETURN(c.norm_epsilon, read.FloatOr("attention.layer_norm_rms_epsilon", 1e-12, 0.1, 1e-5));
  return CheckHeads(c);
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const ModelFile& file) {
  ModelConfig c;
  KV_ASSIGN_OR_RETURN(c.architecture, file.GetString("general.architecture"));
  KV_ASSIGN_OR_RETURN(const Family family, FamilyOf(c.architecture));
  c.name = file.GetString("general.name").value_or(c.architecture);
  c.rotates_halves = family.rotates_halves;
  if (file.Has(c.architecture + ".rope.rotates_halves")) {
    KV_ASSIGN_OR_RETURN(c.rotates_halves, file.GetBool(c.architecture + ".rope.rotates_halves"));
  }
  c.unrotated_every = family.unrotated_every;
  c.needs_qkv_bias = family.needs_qkv_bias;
  c.has_head_norms = family.has_head_norms;
  c.fuses_matrices = family.fuses_matrices;
  const std::string prefix = c.architecture + ".";
  KV_RETURN_IF_ERROR(CheckKeys(file, prefix));
  KV_RETURN_IF_ERROR(CheckIsPlainDecoder(file, prefix));
  KV_RETURN_IF_ERROR(ReadShape(MetadataReader(file, prefix), c));
  KV_ASSIGN_OR_RETURN(const uint64_t trained, file.GetUint(prefix + "context_length"));
  KV_ASSIGN_OR_RETURN(c.rope_scaling,
                      ReadRopeScaling(file, prefix, c.rope_dims, c.rope_theta, static_cast<int>(trained)));
  KV_ASSIGN_OR_RETURN(const model_file::TensorInfo* embedding, file.Find("token_embd.weight"));
  if (embedding->dims.size() != 2 || embedding->dims[1] > (1u << 22))
    return absl::InvalidArgumentError("token_embd.weight must have two dimensions and at most 4194304 rows");
  c.vocabulary = static_cast<int>(embedding->dims[1]);
  return c;
}

}  // namespace kvrelay::model
