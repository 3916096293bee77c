// Native matmul: the same bits from every kernel set, for every number of rows and every range of units.
#include "common/kernels/matmul.h"

#include <gmock/gmock.h>
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
#include "tests/testing/encode_weights.h"

namespace kvrelay::kernels::testing {
namespace {

using model_file::TensorType;
using reference::QuantizedActivations;

using kvrelay::testing::kAllTypes;

constexpr int kMaxRows = 17;
constexpr int kOutputs = 75;  // four units and a part of one
constexpr int kUnits = 5;
constexpr int kStride = kUnits * kUnitRows + 3;

int BlockOf(TensorType type) { return static_cast<int>(model_file::BlockShapeOf(type).elements); }
bool IsQuantized(TensorType type) { return BlockOf(type) > 1; }
// `inputs`, or the next number of them that is whole blocks.
int WholeBlocks(TensorType type, int inputs) { return (inputs + BlockOf(type) - 1) / BlockOf(type) * BlockOf(type); }

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
    q.sums += first * blocks * 2;
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
      for (const int blocks : {1, 3, 5}) {
        const int inputs = blocks * std::max(BlockOf(type), 32);
        if (inputs > 1024) continue;
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
    Problem problem(random, type, WholeBlocks(type, 64), Values::kNormal);
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
      Problem problem(random, type, WholeBlocks(type, inputs), Values::kNormal);
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
        Problem problem(random, type, WholeBlocks(type, inputs), values);
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

// Blocks in which every weight has the largest magnitude of its type, times activations of +-127: the largest sums that
// 16 bits must hold.
TEST(MatmulTest, IntegerSumsDoNotSaturate) {
  struct Extreme {
    TensorType type;
    int fill;    // of all bytes, except:
    size_t d;    // where the half 1 is
    size_t m;    // and the half 0; `d` if there is none
    int scales;  // of the last 16 bytes before d
    int weight;
  };
  for (const Extreme& e :
       {Extreme{TensorType::kQ4_0, 0x00, 0, 0, 0, -8}, Extreme{TensorType::kQ4_0, 0xFF, 0, 0, 0, 7},
        Extreme{TensorType::kQ4_1, 0xFF, 0, 2, 0, 15}, Extreme{TensorType::kQ5_0, 0x00, 0, 0, 0, -16},
        Extreme{TensorType::kQ5_1, 0xFF, 0, 2, 0, 31}, Extreme{TensorType::kQ8_0, 0x80, 0, 0, 0, -128},
        Extreme{TensorType::kQ4_K, 0xFF, 0, 2, 0, 63 * 15}, Extreme{TensorType::kQ5_K, 0xFF, 0, 2, 0, 63 * 31},
        Extreme{TensorType::kQ6_K, 0x00, 208, 208, 0x80, -32 * -128},
        Extreme{TensorType::kQ6_K, 0xFF, 208, 208, 0x7F, 31 * 127}}) {
    const int inputs = BlockOf(e.type);
    std::vector<std::byte> row(model_file::BlockShapeOf(e.type).bytes, static_cast<std::byte>(e.fill));
    if (e.d > 0) std::fill_n(row.begin() + static_cast<long>(e.d) - 16, 16, static_cast<std::byte>(e.scales));
    const uint16_t zero = 0, one = 0x3C00;
    std::memcpy(&row[e.m], &zero, 2);
    std::memcpy(&row[e.d], &one, 2);
    PackedMatrix packed(e.type, MatmulBackend::kNative, inputs, {row});
    for (const float sign : {1.0f, -1.0f}) {
      const std::vector<float> x(inputs, sign * 127.0f);
      for (const KernelSet& set : SetsUnderTest()) {
        QuantizedActivations quantized(1, inputs);
        set.kernels->quantize_rows(x.data(), 1, inputs, quantized.View());
        std::vector<float> out(16);
        Matmul(*set.kernels, packed.matrix, {1, inputs, x.data(), quantized.View()}, 0, 1, out.data(), 16, false);
        EXPECT_EQ(out[0], sign * 127 * inputs * e.weight) << set.name << " " << model_file::TensorTypeName(e.type);
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
      const int inputs = 3 * std::max(BlockOf(type), 32);
      PackedMatrix packed(type, backend, inputs, RandomFileRows(random, type, kOutputs, inputs, Values::kWideRange));
      EXPECT_EQ(UnitBytes(type, backend, inputs) % 64, 0u);
      for (int row = 0; row < kOutputs; ++row) {
        std::vector<float> got(inputs), want(inputs);
        model_file::DequantizeRow(type, packed.rows[row], absl::MakeSpan(want));
        UnpackRow(packed.matrix, row, got.data());
        ASSERT_TRUE(SameBits(got.data(), want.data(), want.size()))
            << model_file::TensorTypeName(type) << " row " << row;
      }
    }
  }
}

// A packed matrix is about as large as the file's: bytes decide how fast one row is.
TEST(MatmulTest, PackingKeepsTheSize) {
  for (const TensorType type : kAllTypes) {
    const size_t in_file = model_file::RowBytes(type, 1536) * kUnitRows;
    EXPECT_GE(UnitBytes(type, MatmulBackend::kNative, 1536), in_file) << model_file::TensorTypeName(type);
    EXPECT_LE(UnitBytes(type, MatmulBackend::kNative, 1536), in_file * 103 / 100) << model_file::TensorTypeName(type);
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
  for (const TensorType type : {TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K}) {
    EXPECT_TRUE(CheckMatrix(type, 1, 512).ok());
    for (const int inputs : {32, 255, 288, 576}) {
      const absl::Status status = CheckMatrix(type, 1, inputs);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << inputs;
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("must be a multiple of 256"));
    }
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
