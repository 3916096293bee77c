#include "common/model/config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::model {
namespace {

using model_file::GgufFile;

// Keys of the architecture's own section, each checked against the range that the forward pass can take.
class Reader {
 public:
  Reader(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  absl::StatusOr<int> Int(const char* key, int low, int high) const {
    const std::string name = absl::StrCat(prefix_, key);
    KV_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(name));
    if (value < static_cast<uint64_t>(low) || value > static_cast<uint64_t>(high))
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", must be ", low, " to ", high));
    return static_cast<int>(value);
  }
  absl::StatusOr<int> IntOr(const char* key, int low, int high, int otherwise) const {
    return file_.Has(absl::StrCat(prefix_, key)) ? Int(key, low, high) : absl::StatusOr<int>(otherwise);
  }
  absl::StatusOr<float> FloatOr(const char* key, double low, double high, double otherwise) const {
    const std::string name = absl::StrCat(prefix_, key);
    if (!file_.Has(name)) return static_cast<float>(otherwise);
    KV_ASSIGN_OR_RETURN(const double value, file_.GetFloat(name));
    if (!(value >= low && value <= high))
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", must be ", low, " to ", high));
    return static_cast<float>(value);
  }

 private:
  const GgufFile& file_;
  const std::string prefix_;
};

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

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file) {
  ModelConfig c;
  KV_ASSIGN_OR_RETURN(c.architecture, file.GetString("general.architecture"));
  if (c.architecture != "llama")
    return absl::UnimplementedError(
        absl::StrCat("architecture \"", c.architecture, "\" is not supported; supported: llama"));
  c.name = file.GetString("general.name").value_or(c.architecture);
  const Reader read(file, "llama.");
  KV_ASSIGN_OR_RETURN(c.layers, read.Int("block_count", 1, 1024));
  KV_ASSIGN_OR_RETURN(c.width, read.Int("embedding_length", 16, 1 << 17));
  KV_ASSIGN_OR_RETURN(c.ffn_width, read.Int("feed_forward_length", 16, 1 << 19));
  KV_ASSIGN_OR_RETURN(c.heads, read.Int("attention.head_count", 1, 1024));
  KV_ASSIGN_OR_RETURN(c.kv_heads, read.IntOr("attention.head_count_kv", 1, c.heads, c.heads));
  KV_ASSIGN_OR_RETURN(c.head_dim, read.IntOr("attention.key_length", 1, 1 << 12, c.width / c.heads));
  KV_ASSIGN_OR_RETURN(c.rope_dims, read.IntOr("rope.dimension_count", 2, 1 << 12, c.head_dim));
  KV_ASSIGN_OR_RETURN(c.context_length, read.Int("context_length", 1, 1 << 20));
  KV_ASSIGN_OR_RETURN(c.rope_theta, read.FloatOr("rope.freq_base", 1.001, 1e12, 10000));
  KV_ASSIGN_OR_RETURN(c.norm_epsilon, read.FloatOr("attention.layer_norm_rms_epsilon", 1e-12, 0.1, 1e-5));
  if (file.GetString("llama.rope.scaling.type").value_or("none") != "none" || file.Has("llama.rope.scale_linear") ||
      file.Find("rope_freqs.weight").ok())
    return absl::UnimplementedError("scaled rotary positions are not supported");
  KV_RETURN_IF_ERROR(CheckHeads(c));
  KV_ASSIGN_OR_RETURN(const model_file::TensorInfo* embedding, file.Find("token_embd.weight"));
  if (embedding->dims.size() != 2 || embedding->dims[1] > (1u << 22))
    return absl::InvalidArgumentError("token_embd.weight must have two dimensions and at most 4194304 rows");
  c.vocabulary = static_cast<int>(embedding->dims[1]);
  return c;
}

}  // namespace kvrelay::model
