// Native matmul: the same bits from every kernel set, for every number of rows and every range of units.
#include "common/kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/kernel_sets.h"
#include "tests/kernels/test_data.h"
#include "tests/reference/reference_kernels.h"

namespace kvrelay::kernels::testing {
namespace {

using model_file::TensorType;
using reference::QuantizedActivations;

constexpr TensorType kAllTypes[] = {TensorType::kF32, TensorType::kF16, TensorType::kBf16, TensorType::kQ4_1,
                                    TensorType::kQ8_0};
constexpr int kMaxRows = 17;
constexpr int kOutputs = 75;  // four units and a part of one
constexpr int kUnits = 5;
constexpr int kStride = kUnits * kUnitRows + 3;

bool IsQuantized(TensorType type) { return type == TensorType::kQ4_1 || type == TensorType::kQ8_0; }

// Weights, activations and what must come out, by the contract.
struct Problem {
  Problem(std::mt19937& random, TensorType type, int inputs, Values values)
      : packed(type, MatmulBackend::kNative, inputs, RandomFileRows(random, type, kOutputs, inputs, values)),
        // Products of two huge floats would overflow, and infinities cancel to NaN, which the contract does not order.
        x(RandomFloats(random, static_cast<size_t>(kMaxRows) * inputs,
                       values == Values::kHuge && !IsQuantized(type) ? Values::kSaturated : values)),
        quantized(reference::Quantize(x, kMaxRows, inputs)),
        want(static_cast<size_t>(kMaxRows) * kStride) {
    for (int row = 0; row < kMaxRows; ++row) {
      for (int n = 0; n < kOutputs; ++n) want[row * kStride + n] = Dot(row, n);
    }
  }

  absl::Span<const float> Row(int row) const {
    return absl::MakeConstSpan(x).subspan(static_cast<size_t>(row) * packed.matrix.inputs, packed.matrix.inputs);
  }
  float Dot(int row, int n) {
    const Matrix& m = packed.matrix;
    if (!IsQuantized(m.type)) return reference::DotContract(m.type, packed.rows[n], Row(row));
    return reference::QuantDotContract(m.type, packed.rows[n], quantized.View(), row, m.inputs);
  }
  reference::Bounded DotDouble(int row, int n) {
    const Matrix& m = packed.matrix;
    if (!IsQuantized(m.type)) return reference::DotDouble(m.type, packed.rows[n], Row(row));
    return reference::QuantDotDouble(m.type, packed.rows[n], quantized.View(), row, m.inputs);
  }
  // Rows first..first+rows-1 as a call of their own.
  Activations Rows(int first, int rows) {
    QuantizedRows q = quantized.View();
    const size_t blocks = static_cast<size_t>(packed.matrix.inputs) / kQuantBlock;
    q.q += first * blocks * kQuantBlock;
    q.d += first * blocks;
    q.d_sum += first * blocks;
    q.sum += first * blocks;
    return {rows, packed.matrix.inputs, Row(first).data(), q};
  }

  PackedMatrix packed;
  std::vector<float> x;
  QuantizedActivations quantized;
  std::vector<float> want;
};

// Runs rows first..first+rows-1 over units begin..end-1 and checks everything that was written and that nothing else
// was.
void Check(Problem& problem, const KernelSet& set, int first, int rows, int begin, int end, bool add) {
  constexpr float kBefore = 0.75f;
  std::vector<float> out(static_cast<size_t>(rows) * kStride, kBefore);
  Matmul(*set.kernels, problem.packed.matrix, problem.Rows(first, rows), begin, end, out.data(), kStride, add);
  std::vector<float> want(out.size(), kBefore);
  for (int row = 0; row < rows; ++row) {
    for (int n = begin * kUnitRows; n < end * kUnitRows; ++n) {
      const float value = problem.want[(first + row) * kStride + n];
      want[row * kStride + n] = add ? kBefore + value : value;
    }
  }
  ASSERT_TRUE(SameBits(out.data(), want.data(), want.size()))
      << set.name << ", " << model_file::TensorTypeName(problem.packed.matrix.type) << ", inputs "
      << problem.packed.matrix.inputs << ", rows " << rows << " from " << first << ", units " << begin << ".." << end
      << ", stride " << kStride;
}

TEST(MatmulTest, EveryNumberOfRows) {
  std::mt19937 random(5);
  for (const TensorType type : kAllTypes) {
    for (const Values values : kAllValues) {
      for (const int inputs : {32, 96, 160}) {
        Problem problem(random, type, inputs, values);
        for (const KernelSet& set : SetsUnderTest()) {
          for (int rows = 1; rows <= kMaxRows; ++rows) Check(problem, set, 0, rows, 0, kUnits, rows % 2 == 0);
          Check(problem, set, 11, 3, 0, kUnits, false);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(MatmulTest, EveryRangeOfUnits) {
  std::mt19937 random(6);
  for (const TensorType type : kAllTypes) {
    Problem problem(random, type, 64, Values::kNormal);
    for (const KernelSet& set : SetsUnderTest()) {
      for (const int rows : {1, 2, 3, 6, 17}) {
        for (int begin = 0; begin <= kUnits; ++begin) {
          for (int end = begin; end <= kUnits; ++end) Check(problem, set, 0, rows, begin, end, (begin + end) % 2 == 0);
        }
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(MatmulTest, RowsAsLongAsTheModels) {
  std::mt19937 random(7);
  for (const TensorType type : kAllTypes) {
    for (const int inputs : {576, 1536}) {
      Problem problem(random, type, inputs, Values::kNormal);
      for (const KernelSet& set : SetsUnderTest()) {
        for (const int rows : {1, 2, 5, 17}) Check(problem, set, 0, rows, 0, kUnits, false);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// More rows than one panel holds. They repeat, so that the slow twin need not compute them all.
TEST(MatmulTest, ManyRows) {
  constexpr int kRows = 300;
  constexpr int kInputs = 1536;
  std::mt19937 random(8);
  Problem problem(random, TensorType::kQ4_1, kInputs, Values::kNormal);
  std::vector<float> x;
  for (int row = 0; row < kRows; ++row) {
    const auto source = problem.Row(row % kMaxRows);
    x.insert(x.end(), source.begin(), source.end());
  }
  for (const KernelSet& set : SetsUnderTest()) {
    QuantizedActivations quantized(kRows, kInputs);
    set.kernels->quantize_rows(x.data(), kRows, kInputs, quantized.View());
    std::vector<float> out(static_cast<size_t>(kRows) * kStride);
    Matmul(*set.kernels, problem.packed.matrix, {kRows, kInputs, x.data(), quantized.View()}, 0, kUnits, out.data(),
           kStride, false);
    for (int row = 0; row < kRows; ++row) {
      ASSERT_TRUE(SameBits(&out[row * kStride], &problem.want[row % kMaxRows * kStride], kOutputs))
          << set.name << " row " << row;
    }
  }
}

TEST(MatmulTest, ContractIsCloseToDouble) {
  std::mt19937 random(9);
  for (const TensorType type : kAllTypes) {
    for (const Values values : kAllValues) {
      for (const int inputs : {32, 576, 1536}) {
        Problem problem(random, type, inputs, values);
        for (int row = 0; row < 3; ++row) {
          for (int n = 0; n < kOutputs; n += 7) {
            const reference::Bounded exact = problem.DotDouble(row, n);
            ASSERT_NEAR(problem.want[row * kStride + n], exact.value, exact.tolerance)
                << model_file::TensorTypeName(type) << " " << inputs;
          }
        }
      }
    }
  }
}

// Weight -128 times activation 127 throughout, and nibble 15 times +-127: the largest sums that 16 bits must hold.
TEST(MatmulTest, IntegerSumsDoNotSaturate) {
  for (const float sign : {1.0f, -1.0f}) {
    for (const TensorType type : {TensorType::kQ4_1, TensorType::kQ8_0}) {
      std::vector<std::byte> row(model_file::RowBytes(type, 32),
                                 type == TensorType::kQ4_1 ? std::byte{0xFF} : std::byte{0x80});
      const uint16_t scales[2] = {0x3C00, 0};  // d = 1, m = 0
      std::memcpy(row.data(), scales, type == TensorType::kQ4_1 ? 4 : 2);
      PackedMatrix packed(type, MatmulBackend::kNative, 32, {row});
      const std::vector<float> x(32, sign * 127.0f);
      for (const KernelSet& set : SetsUnderTest()) {
        QuantizedActivations quantized(1, 32);
        set.kernels->quantize_rows(x.data(), 1, 32, quantized.View());
        std::vector<float> out(16);
        Matmul(*set.kernels, packed.matrix, {1, 32, x.data(), quantized.View()}, 0, 1, out.data(), 16, false);
        EXPECT_EQ(out[0], sign * 127 * 32 * (type == TensorType::kQ4_1 ? 15 : -128)) << set.name;
      }
    }
  }
}

// One input, weights of all 65536 patterns: conversion of stored halves.
TEST(MatmulTest, ConvertsEveryHalf) {
  for (const TensorType type : {TensorType::kF16, TensorType::kBf16}) {
    std::vector<std::vector<std::byte>> rows;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      rows.push_back({static_cast<std::byte>(bits & 255), static_cast<std::byte>(bits >> 8)});
    }
    PackedMatrix packed(type, MatmulBackend::kNative, 1, rows);
    const float one = 1.0f;
    for (const KernelSet& set : SetsUnderTest()) {
      std::vector<float> out(65536);
      Matmul(*set.kernels, packed.matrix, {1, 1, &one, {}}, 0, packed.matrix.units(), out.data(), 65536, false);
      for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float want = type == TensorType::kBf16
                               ? std::bit_cast<float>(bits << 16)
                               : static_cast<float>(reference::HalfValue(static_cast<uint16_t>(bits)));
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(out[bits])) << set.name << " " << bits;
        } else {
          const float sum = want + 0.0f;  // a chain starts from +0, so -0 comes out as +0
          ASSERT_TRUE(SameBits(&out[bits], &sum, 1)) << set.name << " " << bits;
        }
      }
    }
  }
}

TEST(MatmulTest, UnpackGivesTheFilesValues) {
  std::mt19937 random(10);
  for (const TensorType type : kAllTypes) {
    for (const MatmulBackend backend : {MatmulBackend::kNative, MatmulBackend::kOpenBlas}) {
      PackedMatrix packed(type, backend, 96, RandomFileRows(random, type, kOutputs, 96, Values::kWideRange));
      EXPECT_EQ(UnitBytes(type, backend, 96) % 64, 0u);
      for (int row = 0; row < kOutputs; ++row) {
        std::vector<float> got(96), want(96);
        model_file::DequantizeRow(type, packed.rows[row], absl::MakeSpan(want));
        UnpackRow(packed.matrix, row, got.data());
        ASSERT_TRUE(SameBits(got.data(), want.data(), 96)) << model_file::TensorTypeName(type) << " row " << row;
      }
    }
  }
}

TEST(MatmulTest, ChecksShapes) {
  EXPECT_TRUE(CheckMatrix(TensorType::kQ4_1, 1, 32).ok());
  EXPECT_TRUE(CheckMatrix(TensorType::kF16, 49152, 577).ok());
  const int max = std::numeric_limits<int>::max();
  for (const auto& [outputs, inputs] : std::vector<std::pair<int, int>>{
           {0, 32}, {32, 0}, {-1, 32}, {32, -32}, {32, 33}, {32, 16}, {max, 32}, {32, max / 32 * 32}}) {
    EXPECT_EQ(CheckMatrix(TensorType::kQ8_0, outputs, inputs).code(), absl::StatusCode::kInvalidArgument)
        << outputs << " " << inputs;
  }
}

TEST(MatmulTest, BackendNames) {
  EXPECT_EQ(*ParseMatmulBackend("native"), MatmulBackend::kNative);
  EXPECT_EQ(*ParseMatmulBackend("openblas"), MatmulBackend::kOpenBlas);
  EXPECT_EQ(ParseMatmulBackend("mkl").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*InitMatmulBackend(MatmulBackend::kNative, Isa::kScalar), "scalar");
}

}  // namespace
}  // namespace kvrelay::kernels::testing
