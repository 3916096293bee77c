// The inner loops of a forward pass, one set per instruction set, all with the same bits (the numerics contract of
// ARCHITECTURE.md). These functions take plain pointers, check nothing and allocate nothing; callers have checked
// shapes. Pure: any thread may call them on disjoint outputs. Each thread must have called ComputeThreadInit() once.
//
// The canonical lane order of row-local sums: element i belongs to lane i % 16; each lane adds in ascending i (fma
// where the formula has a product); lanes fold by a fixed tree: 8+8, 4+4, 2+2, 1+1 (lane l with lane l + width/2).
// Tails are zero.
//
// Only plain types here: the kernels' own files, compiled with flags that other code must not be run with, include this
// header and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvrelay::kernels {

// Instruction sets that the native kernels exist for. All give the same bits; only speed differs.
enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Vnni };

// Positions of a KV block, and of the fixed ranges in which attention sums.
inline constexpr int kBlockPositions = 64;
inline constexpr int kRangePositions = 512;
// Activations are quantized in blocks of this many values; weights are packed in units of this many output rows.
inline constexpr int kQuantBlock = 32;
inline constexpr int kUnitRows = 16;

// Type of cached keys and values. With kInt8 a value is q * scale: q in -127..127, and one f16 scale for each
// kKvScaleDims dimensions of a position of a head.
enum class KvType { kF16, kF32, kBf16, kInt8 };
inline constexpr int kKvScaleDims = 32;

// Activation rows quantized for integer matmuls: x ~ d * q, per block of 32 values.
// Per row r and block b: d = max|x| / 127 (0 if that is no normal number: such a block counts as zero); q = round to
// nearest even (x * (1/d) computed by IEEE division 1/d, then one multiplication), clamped to +-127; sums = exact
// sums of the q of each half of the block; d_sum = d * float(sum of the block).
struct QuantizedRows {
  int8_t* q;      // [rows][inputs]
  float* d;       // [rows][inputs / 32]
  float* d_sum;   // [rows][inputs / 32]
  int16_t* sums;  // [rows][inputs / 16]
};

// Attention of consecutive query positions of one sequence, for the query heads that share one KV head, in one layer.
struct AttentionTask {
  KvType type;
  // Per block of the sequence: this layer's and head's keys, [4][head_dim][16]: groups of 16 positions, transposed; and
  // values, [64][head_dim]. Element type as `type`. With kInt8 the scales follow, [4][head_dim / 32][16] and
  // [64][head_dim / 32].
  const std::byte* const* k_blocks;
  const std::byte* const* v_blocks;
  int first_position;  // position of query row 0; row r sees positions 0..first_position + r
  int rows;            // query positions
  int group;           // query heads per KV head
  int head_dim;        // a multiple of 16 (kInt8: of 32), at most 256
  float scale;         // 1 / sqrt(head_dim)
  const float* q;      // row r, head h of the group: q + r * q_stride + h * head_dim
  int q_stride;
  float* out;  // the same addressing with out_stride
  int out_stride;
  float* scratch;  // AttentionScratchFloats(head_dim) floats, 64-byte aligned, one per thread
};

struct Kernels {
  Isa isa;

  // q, d, d_sum, sums of `rows` rows of `inputs` values (a multiple of 32).
  void (*quantize_rows)(const float* x, int rows, int inputs, const QuantizedRows& out);

  // out[i] = (x[i] * (1 / sqrt(mean(x^2) + eps))) * weight[i]. One row of n values. `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);

  // out[i] = (gate[i] / (1 + exp(-gate[i]))) * up[i]; IEEE division. `out` may be `gate` or `up`.
  void (*swiglu)(const float* gate, const float* up, int n, float* out);

  // out[i] = exp((x[i] - from) / scale), exp as in math.h; IEEE division.
  void (*exp_scaled)(const float* x, int n, float from, float scale, float* out);

  // Rotates adjacent pairs: (x[2i], x[2i+1]) by the angle whose cosine and sine are cos[i], sin[i], i < n / 2. In
  // place. x0' = fma(x0, c, -(x1 * s)); x1' = fma(x0, s, x1 * c).
  void (*rope)(float* x, const float* cos, const float* sin, int n);

  // Rounds one head's key and value to the cache type and writes them to slot `slot` (0..63) of a block (layout as in
  // AttentionTask). False if a rounded value is not finite. f16 and bf16: to nearest even. int8, per kKvScaleDims
  // values: scale = max|x| / 127 rounded to f16, to nearest even; q = round to nearest even (x * (1/scale), 0 if the
  // scale is 0), clamped to +-127.
  bool (*store_kv)(KvType type, const float* k, const float* v, int head_dim, int slot, std::byte* k_block,
                   std::byte* v_block);

  // Two levels, always: online softmax over 64-position blocks in ascending order inside fixed 512-position ranges,
  // then the ranges folded in ascending order. Scores: one fma chain over ascending dims per position, then * scale.
  // Per block: m' = max(m, block max); c = exp(m - m'); p = exp(s - m'); l = fma(l, c, sum p in the canonical order);
  // acc = acc * c, then one fma chain over ascending positions. Masked positions have p = 0 and are not read. Result:
  // acc / l.
  void (*attention)(const AttentionTask& task);

  // Integer matmul for a quantized weight type on packed units [unit_begin, unit_end): out[r][16u + j] (= or +=) sum
  // over blocks b ascending of fma(float(isum), d_w * d_x, acc) and, for types with a minimum, then fma(m_w, d_sum_x,
  // acc). With add, the finished sum is added to out with one addition. `out_stride` floats between rows; padded to
  // units.
  using QuantMatmul = void (*)(const std::byte* units, size_t unit_bytes, int unit_begin, int unit_end, int inputs,
                               const QuantizedRows& x, int rows, float* out, int out_stride, bool add);
  QuantMatmul matmul_q4_0;
  QuantMatmul matmul_q4_1;
  QuantMatmul matmul_q5_0;
  QuantMatmul matmul_q5_1;
  QuantMatmul matmul_q8_0;
  QuantMatmul matmul_q4_k;
  QuantMatmul matmul_q5_k;
  QuantMatmul matmul_q6_k;

  // Float matmul: each output is one fma chain over ascending inputs, from 0.
  using FloatMatmul = void (*)(const std::byte* units, size_t unit_bytes, int unit_begin, int unit_end, int inputs,
                               const float* x, int x_stride, int rows, float* out, int out_stride, bool add);
  FloatMatmul matmul_f32;
  FloatMatmul matmul_f16;
  FloatMatmul matmul_bf16;
};

}  // namespace kvrelay::kernels
