#include "common/model/workspace.h"

#include "common/base/status_macros.h"
#include "common/kv/layout.h"

namespace kvrelay::model {
namespace {

// Hands out 64-byte aligned pieces: with no memory it only measures.
class Cutter {
 public:
  explicit Cutter(std::byte* memory) : memory_(memory) {}
  template <typename T>
  T* Cut(size_t count) {
    std::byte* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  size_t used() const { return used_; }

 private:
  std::byte* const memory_;
  size_t used_ = 0;
};

int RoundUp16(int n) { return (n + 15) / 16 * 16; }

kernels::Activations CutActivations(Cutter& cut, int rows, int inputs) {
  const size_t values = size_t(rows) * inputs, blocks = values / kernels::kQuantBlock + 1;
  return {.rows = rows,
          .inputs = inputs,
          .f32 = cut.Cut<float>(values),
          .quantized = {cut.Cut<int8_t>(values), cut.Cut<float>(blocks), cut.Cut<float>(blocks),
                        cut.Cut<int16_t>(2 * blocks)}};
}

void CutAll(Cutter& cut, const ModelConfig& c, int rows, int max_logits, int max_positions, int threads, Workspace* w) {
  const int q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  w->width_stride = RoundUp16(c.width);
  w->q_stride = RoundUp16(q_width);
  w->kv_stride = RoundUp16(kv_width);
  w->ffn_stride = RoundUp16(c.ffn_width);
  w->vocabulary_stride = RoundUp16(c.vocabulary);
  w->x = cut.Cut<float>(size_t(rows) * w->width_stride);
  w->q = cut.Cut<float>(size_t(rows) * w->q_stride);
  w->k = cut.Cut<float>(size_t(rows) * w->kv_stride);
  w->v = cut.Cut<float>(size_t(rows) * w->kv_stride);
  w->gate = cut.Cut<float>(size_t(rows) * w->ffn_stride);
  w->up = cut.Cut<float>(size_t(rows) * w->ffn_stride);
  w->logits = cut.Cut<float>(size_t(max_logits) * w->vocabulary_stride);
  w->normed = CutActivations(cut, rows, c.width);
  w->attended = CutActivations(cut, rows, q_width);
  w->inner = CutActivations(cut, rows, c.ffn_width);
  w->final = CutActivations(cut, max_logits, c.width);
  w->scratch_stride = (kernels::AttentionScratchFloats(c.head_dim) + 63) / 64 * 64;
  w->attention_scratch = cut.Cut<float>(w->scratch_stride * threads);
  w->pointers_per_list = kv::BlocksFor(max_positions);
  w->block_pointers = cut.Cut<const std::byte*>(size_t(threads) * 2 * w->pointers_per_list);
}

}  // namespace

absl::StatusOr<Workspace> Workspace::Create(const ModelConfig& config, int max_rows, int max_logits, int max_positions,
                                            int threads) {
  Workspace workspace;
  Cutter measure(nullptr);
  CutAll(measure, config, max_rows, max_logits, max_positions, threads, &workspace);
  KV_ASSIGN_OR_RETURN(workspace.memory_, HugeBuffer::Allocate(measure.used()));
  Cutter cut(workspace.memory_.data());
  CutAll(cut, config, max_rows, max_logits, max_positions, threads, &workspace);
  return workspace;
}

}  // namespace kvrelay::model
