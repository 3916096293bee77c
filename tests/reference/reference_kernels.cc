#include "tests/reference/reference_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/kernels/math.h"

namespace kvrelay::reference {
namespace {

using kernels::kQuantBlock;
using model_file::TensorType;

constexpr double kHalfUlp = 0x1p-24;  // largest relative error of one rounding
constexpr double kTiny =
    32 * std::numeric_limits<float>::denorm_min();  // and the absolute one where results are denormal

uint16_t ReadHalf(const std::byte* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  return half;
}

// A block of 32 file weights as d * q + m. In q are the middle that the type counts from and, for Q6_K, the scale of
// its 16 values.
struct Block {
  float d = 0;
  float m = 0;
  std::array<int, kQuantBlock> q;
};

bool HasMinimum(TensorType type) {
  return type == TensorType::kQ4_1 || type == TensorType::kQ5_1 || type == TensorType::kQ4_K ||
         type == TensorType::kQ5_K;
}

int ByteAt(const std::byte* p, int i) { return static_cast<int>(p[i]); }
float HalfAt(const std::byte* p, int i) { return static_cast<float>(HalfValue(ReadHalf(p + i))); }
// Nibble `high` (0 or 1) of a byte, and bit `bit` as the fifth one.
int NibbleAt(const std::byte* p, int i, int high) { return ByteAt(p, i) >> (4 * high) & 15; }
int FifthBit(const std::byte* p, int bit) { return (ByteAt(p, bit / 8) >> (bit % 8) & 1) * 16; }

// Q4_0 and its kin: scales, then fifth bits, then nibbles.
Block ReadSmall(const std::byte* p, bool fifth, bool minimum) {
  Block block;
  block.d = HalfAt(p, 0);
  if (minimum) block.m = HalfAt(p, 2);
  const std::byte* upper = p + (minimum ? 4 : 2);
  const std::byte* nibbles = upper + (fifth ? 4 : 0);
  const int middle = minimum ? 0 : fifth ? 16 : 8;
  for (int i = 0; i < 32; ++i) {
    block.q[i] = NibbleAt(nibbles, i % 16, i / 16) + (fifth ? FifthBit(upper, i) : 0) - middle;
  }
  return block;
}

// Block `b` (0..7) of 256 weights in Q4_K or Q5_K.
Block ReadK(const std::byte* p, int b, bool fifth) {
  const std::byte* s = p + 4;
  const int scale = b < 4 ? ByteAt(s, b) % 64 : ByteAt(s, b + 4) % 16 + ByteAt(s, b - 4) / 64 * 16;
  const int minimum = b < 4 ? ByteAt(s, b + 4) % 64 : ByteAt(s, b + 4) / 16 + ByteAt(s, b) / 64 * 16;
  const std::byte* nibbles = p + (fifth ? 48 : 16);
  Block block;
  block.d = HalfAt(p, 0) * static_cast<float>(scale);
  block.m = -HalfAt(p, 2) * static_cast<float>(minimum);
  for (int i = 0; i < 32; ++i) {
    block.q[i] = NibbleAt(nibbles, b / 2 * 32 + i, b % 2) + (fifth ? FifthBit(p + 16, 8 * i + b) : 0);
  }
  return block;
}

Block ReadQ6K(const std::byte* p, int b) {
  Block block;
  block.d = HalfAt(p, 208);
  for (int i = 0; i < 32; ++i) {
    const int low = NibbleAt(p, b / 4 * 64 + b % 2 * 32 + i, b % 4 / 2);
    const int upper = ByteAt(p, 128 + b / 4 * 32 + i) >> (2 * (b % 4)) & 3;
    const int scale = static_cast<int8_t>(p[192 + b * 2 + i / 16]);
    block.q[i] = scale * (low + 16 * upper - 32);
  }
  return block;
}

Block ReadQ8(const std::byte* p) {
  Block block;
  block.d = HalfAt(p, 0);
  for (int i = 0; i < 32; ++i) block.q[i] = static_cast<int8_t>(p[2 + i]);
  return block;
}

Block ReadBlock(TensorType type, absl::Span<const std::byte> weights, size_t b) {
  const auto small = [&](size_t bytes) { return weights.data() + b * bytes; };
  const auto super = [&](size_t bytes) { return weights.data() + b / 8 * bytes; };
  const int in_super = static_cast<int>(b % 8);
  switch (type) {
    case TensorType::kQ4_0:
      return ReadSmall(small(18), false, false);
    case TensorType::kQ4_1:
      return ReadSmall(small(20), false, true);
    case TensorType::kQ5_0:
      return ReadSmall(small(22), true, false);
    case TensorType::kQ5_1:
      return ReadSmall(small(24), true, true);
    case TensorType::kQ8_0:
      return ReadQ8(small(34));
    case TensorType::kQ4_K:
      return ReadK(super(144), in_super, false);
    case TensorType::kQ5_K:
      return ReadK(super(176), in_super, true);
    default:
      return ReadQ6K(super(210), in_super);
  }
}

float FloatWeight(TensorType type, const std::byte* weights, size_t k) {
  if (type == TensorType::kF32) {
    float value;
    std::memcpy(&value, weights + 4 * k, sizeof(value));
    return value;
  }
  const uint16_t bits = ReadHalf(weights + 2 * k);
  if (type == TensorType::kF16) return static_cast<float>(HalfValue(bits));
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Sum of 16 lanes by the canonical tree.
float FoldLanes(std::array<float, 16> lanes) {
  for (int width = 8; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }
  return lanes[0];
}

// Softmax over positions begin..end-1, by blocks of 64, and the values that it weighs.
struct RangeSum {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
  std::vector<float> acc;
};

void AddBlock(const History& history, absl::Span<const float> q, int begin, int end, float scale, RangeSum& range) {
  const size_t dim = static_cast<size_t>(history.head_dim);
  std::vector<float> p;
  float block_max = -std::numeric_limits<float>::infinity();
  for (int i = begin; i < end; ++i) {
    float score = 0;
    for (size_t j = 0; j < dim; ++j) score = std::fma(q[j], history.k[i * dim + j], score);
    p.push_back(score * scale);
    block_max = std::max(block_max, p.back());
  }
  const float new_max = std::max(range.max, block_max);
  const float rescale = kernels::Exp(range.max - new_max);
  std::array<float, 16> lanes = {};
  for (size_t i = 0; i < p.size(); ++i) {
    p[i] = kernels::Exp(p[i] - new_max);
    lanes[i % 16] += p[i];
  }
  range.max = new_max;
  range.sum = std::fma(range.sum, rescale, FoldLanes(lanes));
  for (size_t j = 0; j < dim; ++j) {
    float acc = range.acc[j] * rescale;
    for (int i = begin; i < end; ++i) acc = std::fma(p[i - begin], history.v[i * dim + j], acc);
    range.acc[j] = acc;
  }
}

float RoundToHalf(float x) { return static_cast<float>(static_cast<_Float16>(x)); }

// A multiple of the distance between the neighbours of x that have 8 significant bits.
float RoundToBf16(float x) {
  if (!std::isfinite(x) || x == 0) return x;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7);
  const double rounded = std::nearbyint(x / unit) * unit;
  return std::abs(rounded) < 0x1p128 ? static_cast<float>(rounded)
                                     : std::copysign(std::numeric_limits<float>::infinity(), x);
}

void RoundToInt8(absl::Span<float> x) {
  float max = 0;
  for (const float value : x) max = max >= std::abs(value) ? max : std::abs(value);  // a NaN stays
  const float scale = RoundToHalf(max / 127.0f);
  const float inverse = scale == 0 ? 0 : 1.0f / scale;
  for (float& value : x) value = scale * std::clamp(std::nearbyint(value * inverse), -127.0f, 127.0f);
}

}  // namespace

double HalfValue(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

QuantizedActivations::QuantizedActivations(int rows, int inputs)
    : q(static_cast<size_t>(rows) * inputs),
      d(static_cast<size_t>(rows) * inputs / kQuantBlock),
      d_sum(d.size()),
      sums(2 * d.size()) {}

kernels::QuantizedRows QuantizedActivations::View() { return {q.data(), d.data(), d_sum.data(), sums.data()}; }

QuantizedActivations Quantize(absl::Span<const float> x, int rows, int inputs) {
  QuantizedActivations out(rows, inputs);
  for (size_t b = 0; b < out.d.size(); ++b) {
    const float* values = x.data() + b * kQuantBlock;
    float max = 0;
    for (int i = 0; i < kQuantBlock; ++i) max = std::max(max, std::abs(values[i]));
    const float d = max / 127.0f;
    if (d < std::numeric_limits<float>::min()) continue;  // counts as zero
    const float inverse = 1.0f / d;
    for (int i = 0; i < kQuantBlock; ++i) {
      const float rounded = std::nearbyint(values[i] * inverse);
      const int q = static_cast<int>(std::clamp(rounded, -127.0f, 127.0f));
      out.q[b * kQuantBlock + i] = static_cast<int8_t>(q);
      out.sums[2 * b + i / 16] = static_cast<int16_t>(out.sums[2 * b + i / 16] + q);
    }
    out.d[b] = d;
    out.d_sum[b] = d * static_cast<float>(out.sums[2 * b] + out.sums[2 * b + 1]);
  }
  return out;
}

Bounded DotDouble(TensorType type, absl::Span<const std::byte> weights, absl::Span<const float> x) {
  double sum = 0;
  double magnitude = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    const double product = static_cast<double>(FloatWeight(type, weights.data(), k)) * x[k];
    sum += product;
    magnitude += std::abs(product);
  }
  // One rounding per step, of a partial sum that `magnitude` bounds.
  return {sum, static_cast<double>(x.size()) * kHalfUlp * magnitude + kTiny};
}

Bounded QuantDotDouble(TensorType type, absl::Span<const std::byte> weights, const kernels::QuantizedRows& x, int row,
                       int inputs) {
  const size_t blocks = static_cast<size_t>(inputs / kQuantBlock);
  double sum = 0;
  double magnitude = 0;
  for (size_t b = 0; b < blocks; ++b) {
    const Block block = ReadBlock(type, weights, b);
    const size_t at = row * blocks + b;
    double products = 0;
    double q_sum = 0;
    for (int i = 0; i < kQuantBlock; ++i) {
      products += block.q[i] * x.q[at * kQuantBlock + i];
      q_sum += x.q[at * kQuantBlock + i];
    }
    const double scaled = products * block.d * x.d[at];
    const double minimum = q_sum * block.m * x.d[at];
    sum += scaled + minimum;
    magnitude += std::abs(scaled) + std::abs(minimum);
  }
  // Two sums per block, and the roundings of d_w * d_x and of d_sum.
  return {sum, static_cast<double>(2 * blocks + 2) * kHalfUlp * magnitude + kTiny};
}

float DotContract(TensorType type, absl::Span<const std::byte> weights, absl::Span<const float> x) {
  float acc = 0;
  for (size_t k = 0; k < x.size(); ++k) acc = std::fma(FloatWeight(type, weights.data(), k), x[k], acc);
  return acc;
}

float QuantDotContract(TensorType type, absl::Span<const std::byte> weights, const kernels::QuantizedRows& x, int row,
                       int inputs) {
  const size_t blocks = static_cast<size_t>(inputs / kQuantBlock);
  float acc = 0;
  for (size_t b = 0; b < blocks; ++b) {
    const Block block = ReadBlock(type, weights, b);
    const size_t at = row * blocks + b;
    int products = 0;
    for (int i = 0; i < kQuantBlock; ++i) products += block.q[i] * x.q[at * kQuantBlock + i];
    acc = std::fma(static_cast<float>(products), block.d * x.d[at], acc);
    if (HasMinimum(type)) acc = std::fma(block.m, x.d_sum[at], acc);
  }
  return acc;
}

float RmsNormContract(absl::Span<const float> x, absl::Span<const float> weight, float eps, size_t i) {
  std::array<float, 16> lanes = {};
  for (size_t j = 0; j < x.size(); ++j) lanes[j % 16] = std::fma(x[j], x[j], lanes[j % 16]);
  const float inverse = 1.0f / std::sqrt(FoldLanes(lanes) / static_cast<float>(x.size()) + eps);
  return (x[i] * inverse) * weight[i];
}

Bounded RmsNormDouble(absl::Span<const float> x, absl::Span<const float> weight, float eps, size_t i) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  const double value = x[i] / std::sqrt(sum / static_cast<double>(x.size()) + eps) * weight[i];
  // The sum is of like signs: each of its roundings is relative. About six more follow.
  return {value, (static_cast<double>(x.size()) + 6) * kHalfUlp * std::abs(value) + kTiny};
}

Bounded SwiGluDouble(float gate, float up) {
  const double value = gate / (1 + std::exp(-static_cast<double>(gate))) * up;
  // Exp is within 2 ulp (4 half ulps) and infinite where the true result is below 1e-36; three roundings follow.
  return {value, 7 * kHalfUlp * std::abs(value) + 1e-36 * std::abs(up) + kTiny};
}

std::vector<float> RoundedToCache(kernels::KvType type, absl::Span<const float> x) {
  std::vector<float> out(x.begin(), x.end());
  if (type == kernels::KvType::kF16) {
    for (float& value : out) value = RoundToHalf(value);
  } else if (type == kernels::KvType::kBf16) {
    for (float& value : out) value = RoundToBf16(value);
  } else if (type == kernels::KvType::kInt8) {
    for (size_t i = 0; i < out.size(); i += kernels::kKvScaleDims)
      RoundToInt8(absl::MakeSpan(out).subspan(i, kernels::kKvScaleDims));
  }
  return out;
}

std::vector<float> AttentionContract(const History& history, absl::Span<const float> q, int positions, float scale) {
  const size_t dim = static_cast<size_t>(history.head_dim);
  RangeSum total;
  total.acc.assign(dim, 0);
  for (int begin = 0; begin < positions; begin += kernels::kRangePositions) {
    RangeSum range;
    range.acc.assign(dim, 0);
    const int range_end = std::min(positions, begin + kernels::kRangePositions);
    for (int block = begin; block < range_end; block += kernels::kBlockPositions) {
      AddBlock(history, q, block, std::min(range_end, block + kernels::kBlockPositions), scale, range);
    }
    const float new_max = std::max(total.max, range.max);
    const float a = kernels::Exp(total.max - new_max);
    const float b = kernels::Exp(range.max - new_max);
    total.max = new_max;
    total.sum = std::fma(total.sum, a, range.sum * b);
    for (size_t j = 0; j < dim; ++j) total.acc[j] = std::fma(total.acc[j], a, range.acc[j] * b);
  }
  for (float& value : total.acc) value /= total.sum;
  return total.acc;
}

std::vector<Bounded> AttentionDouble(const History& history, absl::Span<const float> q, int positions, float scale) {
  const size_t dim = static_cast<size_t>(history.head_dim);
  std::vector<double> scores;
  double score_error = 0;
  for (int i = 0; i < positions; ++i) {
    double sum = 0;
    double magnitude = 0;
    for (size_t j = 0; j < dim; ++j) {
      const double product = static_cast<double>(q[j]) * history.k[i * dim + j];
      sum += product;
      magnitude += std::abs(product);
    }
    scores.push_back(sum * scale);
    score_error = std::max(score_error, static_cast<double>(dim + 2) * kHalfUlp * magnitude * scale);
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double weight_sum = 0;
  for (double& score : scores) weight_sum += score = std::exp(score - max);
  // Each weight is off by the errors of its score and of the maximum, an exp and rescalings; then come the sums.
  const double relative = 2 * score_error + (positions + 8.0 * (positions / 64 + 2)) * kHalfUlp;
  std::vector<Bounded> out(dim);
  for (size_t j = 0; j < dim; ++j) {
    double sum = 0;
    double magnitude = 0;
    for (int i = 0; i < positions; ++i) {
      sum += scores[i] / weight_sum * history.v[i * dim + j];
      magnitude += scores[i] / weight_sum * std::abs(history.v[i * dim + j]);
    }
    out[j] = {sum, 2 * relative * magnitude + kTiny};
  }
  return out;
}

}  // namespace kvrelay::reference
