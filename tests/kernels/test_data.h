// Inputs for kernel tests: random ones and those that arithmetic goes wrong on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/kernels/matmul.h"
#include "gtest/gtest.h"

namespace kvrelay::kernels::testing {

// What values are like. kSaturated: all as large as the largest, signs mixed, so that integer sums reach their limits.
enum class Values { kNormal, kWideRange, kZeros, kDenormal, kHuge, kSaturated };
inline constexpr Values kAllValues[] = {Values::kNormal,   Values::kWideRange, Values::kZeros,
                                        Values::kDenormal, Values::kHuge,      Values::kSaturated};

std::vector<float> RandomFloats(std::mt19937& random, size_t count, Values values);

// `outputs` rows of a file, RowBytes each.
std::vector<std::vector<std::byte>> RandomFileRows(std::mt19937& random, model_file::TensorType type, int outputs,
                                                   int inputs, Values values);

// Memory at a multiple of 64 bytes.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : memory_(size + 63) {}
  std::byte* data() { return memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64; }

 private:
  std::vector<std::byte> memory_;
};

// A packed matrix and the rows that it was packed from.
struct PackedMatrix {
  PackedMatrix(model_file::TensorType type, MatmulBackend backend, int inputs,
               std::vector<std::vector<std::byte>> rows);

  std::vector<std::vector<std::byte>> rows;
  AlignedBytes memory;
  Matrix matrix;
};

// Success if the bytes are equal; otherwise says where they first differ.
::testing::AssertionResult SameBits(const float* got, const float* want, size_t count);

}  // namespace kvrelay::kernels::testing
