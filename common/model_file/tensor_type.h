// Element types of stored weights: block shape, names, and the exact value of each element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace kvrelay::model_file {

// Numbers are those of GGUF files.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBf16 = 30
};

// Elements and bytes of one block: {1, 4} for F32, {32, 20} for Q4_1.
struct BlockShape {
  size_t elements;
  size_t bytes;
};

// nullopt if the number is no type that we compute with.
std::optional<TensorType> TensorTypeFromGguf(uint32_t number);
BlockShape BlockShapeOf(TensorType type);
std::string_view TensorTypeName(TensorType type);  // "Q4_1"
std::string TensorTypeNames();                     // all of them, for messages: "F32, F16, ..."

// Bytes of a row of `elements`. REQUIRES: a multiple of the block.
size_t RowBytes(TensorType type, size_t elements);

// The exact f32 value of each element. Rounded once where the formula has a sum (Q4_1: fma(q, d, m)). REQUIRES:
// row.size() == RowBytes(type, out.size()).
void DequantizeRow(TensorType type, absl::Span<const std::byte> row, absl::Span<float> out);

}  // namespace kvrelay::model_file
