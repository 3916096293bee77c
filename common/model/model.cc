#include "common/model/model.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/model/rope_scaling.h"
#include "common/model/rope_table.h"

namespace kvrelay::model {

using kernels::kUnitRows;
using kernels::Matrix;
using model_file::ModelFile;
using model_file::TensorInfo;
using model_file::TensorType;

// Which rows of a tensor a matrix has.
struct Rows {
  int first = 0;
  int of = 0;           // rows that the tensor has; 0: those of the matrix
  bool paired = false;  // rows of heads: those that are rotated together become neighbours
};

// Two passes over the same list of tensors: the first checks shapes and adds up sizes, the second reads and packs into
// one buffer. Source bytes go through a buffer of one unit, so a file is never held twice.
class ModelLoader {
 public:
  // Of a model with `all_layers`, every tensor must be known.
  ModelLoader(const ModelFile& file, Model* model, bool all_layers)
      : file_(file), model_(*model), all_layers_(all_layers) {}

  absl::Status Load() {
    KV_RETURN_IF_ERROR(PlanAll());
    size_t total = 0;
    for (const Item& item : items_) total += item.bytes;
    KV_ASSIGN_OR_RETURN(model_.memory_, HugeBuffer::Allocate(total));
    std::byte* next = model_.memory_.data();
    for (const Item& item : items_) {
      KV_RETURN_IF_ERROR(item.matrix != nullptr ? ReadMatrix(item, next) : ReadVector(item, next));
      next += item.bytes;
    }
    if (tied_) model_.head_ = model_.embedding_;
    model_.weight_format_ = MostCommonType();
    return absl::OkStatus();
  }

 private:
  struct Item {
    const TensorInfo* tensor;
    Matrix* matrix;        // or
    const float** vector;  // where the address goes
    size_t bytes;
    Rows rows;
  };

  absl::Status PlanAll() {
    const ModelConfig& c = model_.config_;
    model_.layers_.resize(c.layers);
    KV_RETURN_IF_ERROR(PlanMatrix("token_embd.weight", c.vocabulary, c.width, &model_.embedding_));
    tied_ = !file_.Find("output.weight").ok();
    if (!tied_) KV_RETURN_IF_ERROR(PlanMatrix("output.weight", c.vocabulary, c.width, &model_.head_));
    KV_RETURN_IF_ERROR(PlanVector("output_norm.weight", c.width, &model_.output_norm_));
    for (int i = 0; i < c.layers; ++i) {
      model_.layers_[i].rotates = c.unrotated_every == 0 || (i + 1) % c.unrotated_every != 0;
      KV_RETURN_IF_ERROR(PlanLayer(absl::StrCat("blk.", i, "."), &model_.layers_[i]));
    }
    return all_layers_ ? CheckAllUsed() : absl::OkStatus();
  }

  // A tensor that nobody asks for belongs to a computation that is not built.
  absl::Status CheckAllUsed() const {
    std::set<const TensorInfo*> used;
    for (const Item& item : items_) used.insert(item.tensor);
    for (const TensorInfo& tensor : file_.tensors()) {
      if (used.count(&tensor) != 0 || tensor.name == kRopeDivisorsTensor) continue;
      return absl::UnimplementedError(absl::StrCat("the model has a tensor ", model_file::Quoted(tensor.name),
                                                   ", which is not known for architecture ",
                                                   model_.config_.architecture));
    }
    return absl::OkStatus();
  }

  absl::Status PlanLayer(const std::string& prefix, LayerWeights* l) {
    const ModelConfig& c = model_.config_;
    KV_RETURN_IF_ERROR(PlanVector(prefix + "attn_norm.weight", c.width, &l->attention_norm));
    KV_RETURN_IF_ERROR(PlanHeads(prefix, l));
    KV_RETURN_IF_ERROR(PlanMatrix(prefix + "attn_output.weight", c.width, c.heads * c.head_dim, &l->o));
    KV_RETURN_IF_ERROR(PlanVector(prefix + "ffn_norm.weight", c.width, &l->ffn_norm));
    if (c.fuses_matrices) {
      const std::string both = prefix + "ffn_up.weight";
      KV_RETURN_IF_ERROR(PlanMatrix(both, c.ffn_width, c.width, &l->gate, {.of = 2 * c.ffn_width}));
      KV_RETURN_IF_ERROR(PlanMatrix(both, c.ffn_width, c.width, &l->up, {.first = c.ffn_width, .of = 2 * c.ffn_width}));
    } else {
      KV_RETURN_IF_ERROR(PlanMatrix(prefix + "ffn_gate.weight", c.ffn_width, c.width, &l->gate));
      KV_RETURN_IF_ERROR(PlanMatrix(prefix + "ffn_up.weight", c.ffn_width, c.width, &l->up));
    }
    return PlanMatrix(prefix + "ffn_down.weight", c.width, c.ffn_width, &l->down);
  }

  // Queries, keys and values: three matrices, or one with the rows of all three.
  absl::Status PlanHeads(const std::string& prefix, LayerWeights* l) {
    const ModelConfig& c = model_.config_;
    const int q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
    const bool paired = c.rotates_halves;
    const int all = c.fuses_matrices ? q_width + 2 * kv_width : 0;
    const auto name = [&](const char* own) { return prefix + (c.fuses_matrices ? "attn_qkv.weight" : own); };
    const int k_first = c.fuses_matrices ? q_width : 0, v_first = c.fuses_matrices ? q_width + kv_width : 0;
    KV_RETURN_IF_ERROR(PlanMatrix(name("attn_q.weight"), q_width, c.width, &l->q, {0, all, paired}));
    KV_RETURN_IF_ERROR(PlanMatrix(name("attn_k.weight"), kv_width, c.width, &l->k, {k_first, all, paired}));
    KV_RETURN_IF_ERROR(PlanMatrix(name("attn_v.weight"), kv_width, c.width, &l->v, {v_first, all}));
    KV_RETURN_IF_ERROR(PlanBias(prefix + "attn_q.bias", q_width, &l->q_bias, paired));
    KV_RETURN_IF_ERROR(PlanBias(prefix + "attn_k.bias", kv_width, &l->k_bias, paired));
    KV_RETURN_IF_ERROR(PlanBias(prefix + "attn_v.bias", kv_width, &l->v_bias));
    if (!c.has_head_norms) return absl::OkStatus();
    KV_RETURN_IF_ERROR(PlanVector(prefix + "attn_q_norm.weight", c.head_dim, &l->q_norm, paired));
    return PlanVector(prefix + "attn_k_norm.weight", c.head_dim, &l->k_norm, paired);
  }

  absl::Status PlanBias(const std::string& name, int size, const float** vector, bool paired = false) {
    if (!model_.config_.needs_qkv_bias && !file_.Find(name).ok()) return absl::OkStatus();
    return PlanVector(name, size, vector, paired);
  }

  absl::Status PlanMatrix(const std::string& name, int outputs, int inputs, Matrix* matrix, Rows rows = {}) {
    KV_ASSIGN_OR_RETURN(const TensorInfo* tensor, file_.Find(name));
    const int tensor_rows = rows.of > 0 ? rows.of : outputs;
    if (tensor->dims.size() != 2 || tensor->dims[0] != static_cast<uint64_t>(inputs) ||
        tensor->dims[1] != static_cast<uint64_t>(tensor_rows))
      return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has shape [", absl::StrJoin(tensor->dims, ", "),
                                                     "], expected [", inputs, ", ", tensor_rows, "]"));
    if (absl::Status s = kernels::CheckMatrix(tensor->type, outputs, inputs); !s.ok())
      return absl::Status(s.code(), absl::StrCat("tensor ", name, ": ", s.message()));
    *matrix = {tensor->type, model_.backend_, outputs, inputs, nullptr};
    const size_t bytes = kernels::MatrixBytes(tensor->type, model_.backend_, outputs, inputs);
    items_.push_back({tensor, matrix, nullptr, bytes, rows});
    elements_[tensor->type] += size_t(outputs) * inputs;
    return absl::OkStatus();
  }

  absl::Status PlanVector(const std::string& name, int size, const float** vector, bool paired = false) {
    KV_ASSIGN_OR_RETURN(const TensorInfo* tensor, file_.Find(name));
    if (tensor->dims.size() != 1 || tensor->dims[0] != static_cast<uint64_t>(size))
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, " has shape [", absl::StrJoin(tensor->dims, ", "), "], expected [", size, "]"));
    items_.push_back({tensor, nullptr, vector, (size * sizeof(float) + 63) / 64 * 64, {.paired = paired}});
    return absl::OkStatus();
  }

  absl::Status ReadMatrix(const Item& item, std::byte* to) {
    Matrix& m = *item.matrix;
    m.data = to;
    const size_t row_bytes = model_file::RowBytes(m.type, m.inputs);
    std::vector<std::byte> source(row_bytes * kUnitRows * kUnitsPerRead);
    for (int unit = 0; unit < m.units(); unit += kUnitsPerRead) {
      const int rows = std::min(kUnitRows * kUnitsPerRead, m.outputs - unit * kUnitRows);
      KV_RETURN_IF_ERROR(
          ReadRows(item, unit * kUnitRows, rows, row_bytes, absl::MakeSpan(source.data(), rows * row_bytes)));
      for (int u = 0; u * kUnitRows < rows; ++u) {
        const std::byte* pointers[kUnitRows];
        for (int r = 0; r < kUnitRows; ++r)
          pointers[r] = u * kUnitRows + r < rows ? source.data() + (u * kUnitRows + r) * row_bytes : nullptr;
        kernels::PackUnit(m, unit + u, pointers);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadRows(const Item& item, int first, int rows, size_t row_bytes, absl::Span<std::byte> to) const {
    if (!item.rows.paired) return file_.Read(*item.tensor, (item.rows.first + first) * row_bytes, to);
    for (int r = 0; r < rows; ++r) {
      const size_t from = (item.rows.first + FileRow(first + r)) * row_bytes;
      KV_RETURN_IF_ERROR(file_.Read(*item.tensor, from, to.subspan(r * row_bytes, row_bytes)));
    }
    return absl::OkStatus();
  }

  // Where the file has row `row` of the heads: of each head, first the first of every pair, then the second of every
  // pair, then what is not rotated.
  int FileRow(int row) const {
    const int head_dim = model_.config_.head_dim, pairs = model_.config_.rope_dims / 2, i = row % head_dim;
    return i < 2 * pairs ? row - i + i / 2 + i % 2 * pairs : row;
  }

  absl::Status ReadVector(const Item& item, std::byte* to) {
    std::vector<std::byte> source(item.tensor->bytes);
    KV_RETURN_IF_ERROR(file_.Read(*item.tensor, 0, absl::MakeSpan(source)));
    auto* out = reinterpret_cast<float*>(to);
    std::vector<float> values(item.tensor->dims[0]);
    model_file::DequantizeRow(item.tensor->type, source, absl::MakeSpan(values));
    for (size_t i = 0; i < values.size(); ++i) out[i] = values[item.rows.paired ? FileRow(static_cast<int>(i)) : i];
    *item.vector = out;
    return absl::OkStatus();
  }

  std::string MostCommonType() const {
    const auto most = std::max_element(elements_.begin(), elements_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return std::string(model_file::TensorTypeName(most->first));
  }

  static constexpr int kUnitsPerRead = 16;
  const ModelFile& file_;
  Model& model_;
  const bool all_layers_;
  bool tied_ = false;
  std::vector<Item> items_;
  std::map<TensorType, size_t> elements_;
};

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const ModelFile& file, kernels::MatmulBackend backend,
                                                   kernels::Isa isa, int layers) {
  auto model = std::unique_ptr<Model>(new Model());
  KV_ASSIGN_OR_RETURN(model->config_, ReadModelConfig(file));
  const bool all_layers = layers <= 0 || layers >= model->config_.layers;
  if (!all_layers) model->config_.layers = layers;
  model->kernels_ = &kernels::KernelsFor(isa);
  model->backend_ = backend;
  KV_ASSIGN_OR_RETURN(model->kernel_id_, kernels::InitMatmulBackend(backend, isa));
  KV_ASSIGN_OR_RETURN(model->fingerprint_, file.Fingerprint());
  KV_RETURN_IF_ERROR(ModelLoader(file, model.get(), all_layers).Load());
  const ModelConfig& c = model->config_;
  RopeTable table = MakeRopeTable(c.context_length, c.rope_dims, c.rope_theta, c.rope_scaling);
  model->rope_cos_ = std::move(table.cos);
  model->rope_sin_ = std::move(table.sin);
  return model;
}

}  // namespace kvrelay::model
