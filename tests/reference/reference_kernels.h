// The slow, obvious twins of the kernels. Those in double say what the result means, with a bound on how far correct
// float arithmetic may be from it; those in float follow the numerics contract step by step, one row and one output at
// a time, so that a kernel must equal them bit for bit.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/kernels/kernels.h"
#include "common/model_file/tensor_type.h"

namespace kvrelay::reference {

// A value in double, and how far from it a float computation by the contract may end.
struct Bounded {
  double value;
  double tolerance;
};

double HalfValue(uint16_t half);

// Quantized rows that own their memory.
struct QuantizedActivations {
  QuantizedActivations(int rows, int inputs);
  kernels::QuantizedRows View();

  std::vector<int8_t> q;
  std::vector<float> d, d_sum;
  std::vector<int16_t> sums;
};
QuantizedActivations Quantize(absl::Span<const float> x, int rows, int inputs);

// One weight row of a file times one activation row. Quantized types take the row's quantized form.
Bounded DotDouble(model_file::TensorType type, absl::Span<const std::byte> weights, absl::Span<const float> x);
Bounded QuantDotDouble(model_file::TensorType type, absl::Span<const std::byte> weights,
                       const kernels::QuantizedRows& x, int row, int inputs);
// By the contract.
float DotContract(model_file::TensorType type, absl::Span<const std::byte> weights, absl::Span<const float> x);
float QuantDotContract(model_file::TensorType type, absl::Span<const std::byte> weights,
                       const kernels::QuantizedRows& x, int row, int inputs);

float RmsNormContract(absl::Span<const float> x, absl::Span<const float> weight, float eps, size_t i);
Bounded RmsNormDouble(absl::Span<const float> x, absl::Span<const float> weight, float eps, size_t i);
Bounded SwiGluDouble(float gate, float up);

// One position of one head, as a cache of this type holds it.
std::vector<float> RoundedToCache(kernels::KvType type, absl::Span<const float> x);

// Keys and values as floats, [positions][head_dim], already rounded to the cache type.
struct History {
  absl::Span<const float> k;
  absl::Span<const float> v;
  int head_dim;
};
// One head of one row that sees the first `positions` positions; head_dim values.
std::vector<float> AttentionContract(const History& history, absl::Span<const float> q, int positions, float scale);
std::vector<Bounded> AttentionDouble(const History& history, absl::Span<const float> q, int positions, float scale);

}  // namespace kvrelay::reference
