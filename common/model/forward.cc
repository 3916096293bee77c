#include "common/model/forward.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/workspace.h"

namespace kvrelay::model {
namespace {

using kernels::Activations;
using kernels::kQuantBlock;
using kernels::kUnitRows;
using kernels::Matrix;
using kernels::QuantizedRows;

// Query rows of one attention task: enough to pay for converting a KV block, few enough to balance threads.
constexpr int kAttentionRows = 32;

// One input position of the step.
struct Row {
  int chunk;
  int position;
  int32_t token;
};

// A piece of attention: some rows of one chunk and the query heads of one KV head.
struct AttentionPiece {
  int chunk;
  int kv_head;
  int first_row;  // in the step
  int rows;
  int first_out;  // row of the result
};

// A product y = or += W x of a group that threads share by units.
struct Product {
  const Matrix* matrix;
  float* out;
  int stride;
};

// Columns [first, first + n) of one row.
QuantizedRows At(const QuantizedRows& q, int row, int inputs, int first) {
  const size_t value = size_t(row) * inputs + first, block = value / kQuantBlock;
  return {q.q + value, q.d + block, q.d_sum + block, q.sums + 2 * block};
}

void AddBias(float* x, const float* bias, int n) {
  if (bias == nullptr) return;
  for (int i = 0; i < n; ++i) x[i] += bias[i];
}

}  // namespace

struct Forward::State {
  const Model& model;
  const ModelConfig& c;
  const kernels::Kernels& kernels;
  ThreadPool& pool;
  const int max_rows, max_logits, max_positions;
  Workspace w;

  // The step at work.
  absl::Span<Chunk> chunks;
  const LayerDone* layer_done = nullptr;
  std::vector<Row> rows;
  std::vector<int> bad_layer;                       // per row: first layer with a non-finite key or value, or -1
  std::vector<int> logit_rows;                      // rows that want logits, by chunk
  std::vector<int> logit_index;                     // per chunk: place of its first in logit_rows
  std::vector<AttentionPiece> pieces, last_pieces;  // of all layers but the last; of the last
  int live_rows = 0;  // whose residual goes on: all, and from the last layer's attention on those that want logits
  std::atomic<size_t> next_piece = 0;

  State(const Model* m, ThreadPool* p, int max_rows, int max_logits, int max_positions, Workspace workspace)
      : model(*m),
        c(m->config()),
        kernels(m->kernels()),
        pool(*p),
        max_rows(max_rows),
        max_logits(max_logits),
        max_positions(max_positions),
        w(std::move(workspace)) {
    rows.reserve(max_rows);
    bad_layer.reserve(max_rows);
    logit_rows.reserve(max_logits);
  }

  void Prepare();
  static void Split(const AttentionPiece& whole, int kv_heads, std::vector<AttentionPiece>& into);
  void Finish();

  // The pass, run by every thread; the helpers do the share of `thread`.
  void Pass(int thread);
  void Layer(int index, int thread);
  void KeepLogitRows();
  void Embed(int thread);
  void Norm(const float* weight, const Activations& out, int thread);
  void FinishHeads(float* x, int heads, const float* norm, const float* cos, const float* sin);
  void RopeAndStore(int layer, int thread);
  void Attend(int layer, absl::Span<const AttentionPiece> of, int thread);
  void AttendPiece(int layer, const AttentionPiece& piece, int thread);
  void Multiply(absl::Span<const Product> group, const Activations& x, bool add, int thread);
  void GateUp(const LayerWeights& layer, int thread);
  void Head(int thread);
  void Quantize(const Activations& a, int row, int first, int n, const Matrix& consumer);
  Activations Live(const Activations& a) const {
    Activations live = a;
    live.rows = live_rows;
    return live;
  }
};

void Forward::State::Prepare() {
  rows.clear();
  logit_rows.clear();
  logit_index.assign(chunks.size(), 0);
  pieces.clear();
  last_pieces.clear();
  for (size_t i = 0; i < chunks.size(); ++i) {
    Chunk& chunk = chunks[i];
    const int count = static_cast<int>(chunk.tokens.size());
    const int first_row = static_cast<int>(rows.size());
    KV_CHECK(count > 0 && first_row + count <= max_rows, "a step has at most max_rows rows");
    KV_CHECK(chunk.cache->kv_ready() == chunk.first_position, "inputs follow the cached positions");
    KV_CHECK(chunk.first_position + count <= chunk.cache->capacity() && chunk.first_position + count <= max_positions,
             "the cache has room");
    KV_CHECK(0 <= chunk.drafts && chunk.drafts < count && 0 <= chunk.logits_wanted && chunk.logits_wanted <= count,
             "guesses follow an input, and logits are those of rows");
    chunk.error = absl::OkStatus();
    chunk.computed = chunk.appended = chunk.positions_read = 0;
    chunk.attention_pairs = 0;
    const int index = static_cast<int>(i);
    Split({index, 0, first_row, count, first_row}, c.kv_heads, pieces);
    for (int r = 0; r < count; ++r) rows.push_back({index, chunk.first_position + r, chunk.tokens[r]});
    logit_index[i] = static_cast<int>(logit_rows.size());
    KV_CHECK(logit_index[i] + chunk.logits_wanted <= max_logits, "at most max_logits rows want logits");
    const int first_wanted = first_row + count - chunk.logits_wanted;
    Split({index, 0, first_wanted, chunk.logits_wanted, logit_index[i]}, c.kv_heads, last_pieces);
    for (int r = first_wanted; r < first_row + count; ++r) logit_rows.push_back(r);
  }
  bad_layer.assign(rows.size(), -1);
  live_rows = static_cast<int>(rows.size());
}

void Forward::State::Split(const AttentionPiece& whole, int kv_heads, std::vector<AttentionPiece>& into) {
  // Later rows read more: they come first, so that the small pieces even out the end. (Any order gives the same bits.)
  for (int end = whole.rows; end > 0; end -= kAttentionRows) {
    const int begin = std::max(0, end - kAttentionRows);
    for (int head = 0; head < kv_heads; ++head)
      into.push_back({whole.chunk, head, whole.first_row + begin, end - begin, whole.first_out + begin});
  }
}

void Forward::State::Finish() {
  int row = 0;
  for (Chunk& chunk : chunks) {
    const int own = static_cast<int>(chunk.tokens.size()) - chunk.drafts;
    chunk.usable_drafts = chunk.drafts;
    for (int r = 0; r < own + chunk.drafts; ++r, ++row) {
      if (bad_layer[row] >= 0 && r >= own)
        chunk.usable_drafts = std::min(chunk.usable_drafts, r - own);
      else if (bad_layer[row] >= 0 && chunk.error.ok())
        chunk.error = absl::InternalError(
            absl::StrCat("non-finite key or value in layer ", bad_layer[row], " at position ", rows[row].position));
      ++chunk.computed;
      chunk.attention_pairs += rows[row].position + 1;
    }
    if (!chunk.error.ok()) continue;
    chunk.positions_read = chunk.first_position + chunk.computed;
    chunk.appended = chunk.computed - chunk.drafts;
    chunk.cache->Publish(static_cast<int>(chunk.appended));
  }
}

void Forward::State::Pass(int thread) {
  Embed(thread);
  for (int layer = 0; layer < c.layers; ++layer) Layer(layer, thread);
  if (!logit_rows.empty()) Head(thread);
}

// The last layer's keys and values are stored for every position; what follows them there is needed for logits alone.
//
// Threads meet between phases in which one reads what another wrote. Rows are shared in the same way in Embed, Norm and
// RopeAndStore.
void Forward::State::Layer(int index, int thread) {
  const LayerWeights& l = model.layers()[index];
  Norm(l.attention_norm, w.normed, thread);
  pool.Barrier();
  const Product qkv[] = {{&l.q, w.q, w.q_stride}, {&l.k, w.k, w.kv_stride}, {&l.v, w.v, w.kv_stride}};
  Multiply(qkv, Live(w.normed), false, thread);
  pool.Barrier();
  RopeAndStore(index, thread);
  if (thread == 0) next_piece.store(0, std::memory_order_relaxed);
  pool.Barrier();
  if (thread == 0 && *layer_done) (*layer_done)(index);
  const bool last = index == c.layers - 1;
  if (last && logit_rows.size() < rows.size()) {
    if (logit_rows.empty()) return;
    if (thread == 0) KeepLogitRows();
    pool.Barrier();
  }
  Attend(index, last ? last_pieces : pieces, thread);
  pool.Barrier();
  const Product o[] = {{&l.o, w.x, w.width_stride}};
  Multiply(o, Live(w.attended), true, thread);
  pool.Barrier();
  Norm(l.ffn_norm, w.normed, thread);
  pool.Barrier();
  GateUp(l, thread);
  pool.Barrier();
  const Product down[] = {{&l.down, w.x, w.width_stride}};
  Multiply(down, Live(w.inner), true, thread);
  pool.Barrier();
}

void Forward::State::KeepLogitRows() {
  live_rows = static_cast<int>(logit_rows.size());
  for (int i = 0; i < live_rows; ++i)  // ascending, so none is overwritten before it has moved
    std::copy_n(w.x + size_t(logit_rows[i]) * w.width_stride, c.width, w.x + size_t(i) * w.width_stride);
}

void Forward::State::Embed(int thread) {
  const auto [begin, end] = pool.Share(live_rows, thread);
  for (int r = begin; r < end; ++r)
    kernels::UnpackRow(model.embedding(), rows[r].token, w.x + size_t(r) * w.width_stride);
}

// Quantizes columns [first, first + n) of a row, if the matrix that reads them wants that.
void Forward::State::Quantize(const Activations& a, int row, int first, int n, const Matrix& consumer) {
  if (kernels::WantsQuantized(consumer))
    kernels.quantize_rows(a.f32 + size_t(row) * a.inputs + first, 1, n, At(a.quantized, row, a.inputs, first));
}

void Forward::State::Norm(const float* weight, const Activations& out, int thread) {
  const auto [begin, end] = pool.Share(live_rows, thread);
  for (int r = begin; r < end; ++r) {
    float* to = Values(out) + size_t(r) * c.width;
    kernels.rms_norm(w.x + size_t(r) * w.width_stride, weight, c.width, c.norm_epsilon, to);
    // All matrices that read a norm have the same number of inputs; one quantization serves any mix of types.
    if (model.backend() == kernels::MatmulBackend::kNative && c.width % kQuantBlock == 0)
      kernels.quantize_rows(to, 1, c.width, At(out.quantized, r, c.width, 0));
  }
}

// Queries or keys of one row, `heads` of them, from what the matrix gave to what attention takes.
void Forward::State::FinishHeads(float* x, int heads, const float* norm, const float* cos, const float* sin) {
  if (norm != nullptr)
    for (int h = 0; h < heads; ++h)
      kernels.rms_norm(x + h * c.head_dim, norm, c.head_dim, c.norm_epsilon, x + h * c.head_dim);
  if (cos != nullptr)
    for (int h = 0; h < heads; ++h) kernels.rope(x + h * c.head_dim, cos, sin, c.rope_dims);
}

void Forward::State::RopeAndStore(int layer, int thread) {
  const LayerWeights& l = model.layers()[layer];
  const auto [begin, end] = pool.Share(live_rows, thread);
  for (int r = begin; r < end; ++r) {
    const int position = rows[r].position;
    kv::SequenceCache& cache = *chunks[rows[r].chunk].cache;
    const float* cos = l.rotates ? model.rope_cos(position) : nullptr;
    const float* sin = l.rotates ? model.rope_sin(position) : nullptr;
    float* q = w.q + size_t(r) * w.q_stride;
    float* k = w.k + size_t(r) * w.kv_stride;
    float* v = w.v + size_t(r) * w.kv_stride;
    AddBias(q, l.q_bias, c.heads * c.head_dim);
    AddBias(k, l.k_bias, c.kv_heads * c.head_dim);
    AddBias(v, l.v_bias, c.kv_heads * c.head_dim);
    FinishHeads(q, c.heads, l.q_norm, cos, sin);
    FinishHeads(k, c.kv_heads, l.k_norm, cos, sin);
    const int block = position / kernels::kBlockPositions, slot = position % kernels::kBlockPositions;
    for (int h = 0; h < c.kv_heads; ++h) {
      const bool finite = kernels.store_kv(cache.layout().type, k + h * c.head_dim, v + h * c.head_dim, c.head_dim,
                                           slot, cache.K(block, layer, h), cache.V(block, layer, h));
      if (!finite && bad_layer[r] < 0) bad_layer[r] = layer;
    }
  }
}

void Forward::State::Attend(int layer, absl::Span<const AttentionPiece> of, int thread) {
  for (size_t i; (i = next_piece.fetch_add(1, std::memory_order_relaxed)) < of.size();)
    AttendPiece(layer, of[i], thread);
  const int group_width = c.heads / c.kv_heads * c.head_dim;
  if (group_width % kQuantBlock == 0) return;
  // The heads of a piece do not fill whole quantization blocks: quantize whole rows when all pieces are there.
  pool.Barrier();
  const auto [begin, end] = pool.Share(live_rows, thread);
  for (int r = begin; r < end; ++r) Quantize(w.attended, r, 0, c.heads * c.head_dim, model.layers()[layer].o);
}

void Forward::State::AttendPiece(int layer, const AttentionPiece& piece, int thread) {
  kv::SequenceCache& cache = *chunks[piece.chunk].cache;
  const int position = rows[piece.first_row].position, group = c.heads / c.kv_heads;
  const std::byte** k_blocks = w.block_pointers + size_t(thread) * 2 * w.pointers_per_list;
  const std::byte** v_blocks = k_blocks + w.pointers_per_list;
  const int blocks = kv::BlocksFor(position + piece.rows);
  for (int b = 0; b < blocks; ++b) {
    k_blocks[b] = cache.K(b, layer, piece.kv_head);
    v_blocks[b] = cache.V(b, layer, piece.kv_head);
  }
  const int q_width = c.heads * c.head_dim, column = piece.kv_head * group * c.head_dim;
  kernels.attention({.type = cache.layout().type,
                     .k_blocks = k_blocks,
                     .v_blocks = v_blocks,
                     .first_position = position,
                     .rows = piece.rows,
                     .group = group,
                     .head_dim = c.head_dim,
                     .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                     .q = w.q + size_t(piece.first_row) * w.q_stride + column,
                     .q_stride = w.q_stride,
                     .out = Values(w.attended) + size_t(piece.first_out) * q_width + column,
                     .out_stride = q_width,
                     .scratch = w.attention_scratch + w.scratch_stride * thread});
  if (group * c.head_dim % kQuantBlock != 0) return;
  for (int r = piece.first_out; r < piece.first_out + piece.rows; ++r)
    Quantize(w.attended, r, column, group * c.head_dim, model.layers()[layer].o);
}

void Forward::State::Multiply(absl::Span<const Product> group, const Activations& x, bool add, int thread) {
  int total = 0;
  for (const Product& p : group) total += p.matrix->units();
  auto [begin, end] = pool.Share(total, thread);
  for (const Product& p : group) {
    const int units = p.matrix->units(), from = std::max(0, begin), to = std::min(units, end);
    if (from < to) kernels::Matmul(kernels, *p.matrix, x, from, to, p.out, p.stride, add);
    begin -= units;
    end -= units;
  }
}

// Gate and up for the same columns, then SwiGLU and quantization of those columns: no meeting in between.
void Forward::State::GateUp(const LayerWeights& l, int thread) {
  const int units = l.gate.units();
  const auto [first_pair, end_pair] = pool.Share((units + 1) / 2, thread);
  const int begin = 2 * first_pair, end = std::min(units, 2 * end_pair);
  if (begin >= end) return;
  const Activations x = Live(w.normed);
  kernels::Matmul(kernels, l.gate, x, begin, end, w.gate, w.ffn_stride, false);
  kernels::Matmul(kernels, l.up, x, begin, end, w.up, w.ffn_stride, false);
  const int column = begin * kUnitRows, n = std::min(c.ffn_width, end * kUnitRows) - column;
  for (int r = 0; r < live_rows; ++r) {
    const size_t from = size_t(r) * w.ffn_stride + column;
    kernels.swiglu(w.gate + from, w.up + from, n, Values(w.inner) + size_t(r) * c.ffn_width + column);
    Quantize(w.inner, r, column, n, l.down);
  }
}

void Forward::State::Head(int thread) {
  const auto [begin, end] = pool.Share(live_rows, thread);
  for (int i = begin; i < end; ++i) {
    float* to = Values(w.final) + size_t(i) * c.width;
    kernels.rms_norm(w.x + size_t(i) * w.width_stride, model.output_norm(), c.width, c.norm_epsilon, to);
    Quantize(w.final, i, 0, c.width, model.head());
  }
  pool.Barrier();
  const Product head[] = {{&model.head(), w.logits, w.vocabulary_stride}};
  Multiply(head, Live(w.final), false, thread);
}

absl::StatusOr<std::unique_ptr<Forward>> Forward::Create(const Model* model, ThreadPool* pool, int max_rows,
                                                         int max_logits, int max_positions) {
  KV_ASSIGN_OR_RETURN(Workspace workspace,
                      Workspace::Create(model->config(), max_rows, max_logits, max_positions, pool->threads()));
  return std::unique_ptr<Forward>(
      new Forward(std::make_unique<State>(model, pool, max_rows, max_logits, max_positions, std::move(workspace))));
}

Forward::Forward(std::unique_ptr<State> state) : state_(std::move(state)) {}
Forward::~Forward() = default;

void Forward::Run(absl::Span<Chunk> chunks, const LayerDone& layer_done) {
  State& s = *state_;
  s.chunks = chunks;
  s.layer_done = &layer_done;
  s.Prepare();
  s.pool.Run([&s](int thread) { s.Pass(thread); });
  s.Finish();
}

absl::Span<const float> Forward::Logits(int index, int row) const {
  KV_CHECK(row >= 0 && row < state_->chunks[index].logits_wanted, "the chunk wanted logits of the row");
  const int place = state_->logit_index[index] + row;
  return {state_->w.logits + size_t(place) * state_->w.vocabulary_stride, static_cast<size_t>(state_->c.vocabulary)};
}

}  // namespace kvrelay::model
