#include "common/model/rope_scaling.h"

#include <cmath>
#include <utility>
#include <vector>

#include "common/model/metadata_reader.h"

namespace kvrelay::model {
namespace {

constexpr double kMaxFactor = 1e6;

absl::StatusOr<double> Factor(const MetadataReader& read) {
  KV_ASSIGN_OR_RETURN(const double old_key, read.FloatOr("rope.scale_linear", 1, kMaxFactor, 1));
  return read.FloatOr("rope.scaling.factor", 1, kMaxFactor, old_key);
}

absl::StatusOr<RopeScaling> Linear(const MetadataReader& read, int rope_dims) {
  KV_ASSIGN_OR_RETURN(const double factor, Factor(read));
  return RopeScaling{.divisors = std::vector<double>(rope_dims / 2, factor)};
}

absl::StatusOr<RopeScaling> Llama3(const MetadataReader& read, int rope_dims, double theta, int context_length) {
  KV_ASSIGN_OR_RETURN(const double factor, Factor(read));
  KV_ASSIGN_OR_RETURN(const double low, read.FloatOr("rope.scaling.low_freq_factor", 1e-3, 1e3, 1));
  KV_ASSIGN_OR_RETURN(const double high, read.FloatOr("rope.scaling.high_freq_factor", 1e-3, 1e3, 4));
  KV_ASSIGN_OR_RETURN(const int original,
                      read.IntOr("rope.scaling.original_context_length", 1, 1 << 24, context_length));
  if (low >= high)
    return absl::InvalidArgumentError(
        absl::StrCat("rope.scaling.low_freq_factor ", low, " must be below high_freq_factor ", high));
  return Llama3Scaling(rope_dims, theta, factor, low, high, original);
}

absl::StatusOr<RopeScaling> Yarn(const MetadataReader& read, int rope_dims, double theta, int context_length) {
  KV_ASSIGN_OR_RETURN(const double factor, Factor(read));
  KV_ASSIGN_OR_RETURN(const double fast, read.FloatOr("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32));
  KV_ASSIGN_OR_RETURN(const double slow, read.FloatOr("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1));
  KV_ASSIGN_OR_RETURN(const int original,
                      read.IntOr("rope.scaling.original_context_length", 1, 1 << 24, context_length));
  if (slow >= fast)
    return absl::InvalidArgumentError(
        absl::StrCat("rope.scaling.yarn_beta_slow ", slow, " must be below yarn_beta_fast ", fast));
  KV_RETURN_IF_ERROR(read.FloatOr("rope.scaling.yarn_ext_factor", 1, 1, 1).status());
  RopeScaling scaling = YarnScaling(rope_dims, theta, factor, fast, slow, original);
  KV_ASSIGN_OR_RETURN(scaling.magnitude, read.FloatOr("rope.scaling.yarn_attn_factor", 1e-3, 1e3, scaling.magnitude));
  return scaling;
}

// Multiplies the tensor's divisors in, if the file has it.
absl::Status ApplyTensor(const model_file::ModelFile& file, int rope_dims, RopeScaling& scaling) {
  const auto found = file.Find(kRopeDivisorsTensor);
  if (!found.ok()) return absl::OkStatus();
  const model_file::TensorInfo& tensor = **found;
  const size_t pairs = rope_dims / 2;
  if (tensor.type != model_file::TensorType::kF32 || tensor.dims != std::vector<uint64_t>{pairs})
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", kRopeDivisorsTensor, " must be F32 of shape [", pairs, "]"));
  std::vector<float> values(pairs);
  KV_RETURN_IF_ERROR(file.Read(tensor, 0, absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), tensor.bytes)));
  scaling.divisors.resize(pairs, 1);
  for (size_t i = 0; i < pairs; ++i) {
    if (!(values[i] >= 1e-6f && values[i] <= 1e6f))
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", kRopeDivisorsTensor, " has ", values[i], " at ", i, ", must be 1e-6 to 1e6"));
    scaling.divisors[i] *= values[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<RopeScaling> FromMetadata(const model_file::ModelFile& file, const std::string& prefix, int rope_dims,
                                         double theta, int context_length) {
  const MetadataReader read(file, prefix);
  // Files that have a factor and no type are linear.
  const bool has_factor = read.Has("rope.scaling.factor") || read.Has("rope.scale_linear");
  std::string type = has_factor ? "linear" : "none";
  if (read.Has("rope.scaling.type")) {
    KV_ASSIGN_OR_RETURN(type, file.GetString(prefix + "rope.scaling.type"));
  }
  if (type == "none") return RopeScaling{};
  if (type == "linear") return Linear(read, rope_dims);
  if (type == "llama3") return Llama3(read, rope_dims, theta, context_length);
  if (type == "yarn") return Yarn(read, rope_dims, theta, context_length);
  return absl::UnimplementedError(absl::StrCat(prefix, "rope.scaling.type is \"", type.substr(0, 80),
                                               "\"; supported are none, linear, llama3, yarn"));
}

}  // namespace

absl::StatusOr<RopeScaling> ReadRopeScaling(const model_file::ModelFile& file, const std::string& prefix, int rope_dims,
                                            double theta, int context_length) {
  KV_ASSIGN_OR_RETURN(RopeScaling scaling, FromMetadata(file, prefix, rope_dims, theta, context_length));
  KV_RETURN_IF_ERROR(ApplyTensor(file, rope_dims, scaling));
  return scaling;
}

}  // namespace kvrelay::model
