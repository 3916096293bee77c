#include "tests/kernels/test_data.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace kvrelay::kernels::testing {
namespace {

using model_file::TensorType;

// Finite, in the range that `values` asks for.
uint16_t RandomHalf(std::mt19937& random, Values values) {
  const auto bits = static_cast<uint16_t>(random());
  const uint16_t mantissa_and_sign = bits & 0x83FF;
  switch (values) {
    case Values::kZeros:
      return 0;
    case Values::kDenormal:
      return mantissa_and_sign;
    case Values::kHuge:
    case Values::kSaturated:
      return static_cast<uint16_t>(mantissa_and_sign | (30 << 10));
    case Values::kWideRange:
      return static_cast<uint16_t>(mantissa_and_sign | (random() % 31) << 10);
    case Values::kNormal:
      break;
  }
  return static_cast<uint16_t>(mantissa_and_sign | (10 + random() % 5) << 10);
}

void Append(std::vector<std::byte>& row, const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  row.insert(row.end(), bytes, bytes + size);
}

// Where the halves of a block are. All other bytes may be anything.
std::vector<size_t> HalvesOf(TensorType type) {
  if (type == TensorType::kQ6_K) return {208};
  if (type == TensorType::kQ4_0 || type == TensorType::kQ5_0 || type == TensorType::kQ8_0) return {0};
  return {0, 2};
}

// The byte at `at` of a block when products shall be as large as they can be, which is hardest to hold in 16 bits:
// quants all ones, or all zeros if `other`, and scales of the same sign.
std::byte ExtremeByte(TensorType type, size_t at, bool other) {
  const bool q6_scale = type == TensorType::kQ6_K && at >= 192;
  if (type == TensorType::kQ8_0 || q6_scale) return other ? std::byte{0x80} : std::byte{0x7F};
  return other ? std::byte{0} : std::byte{0xFF};
}

void AppendBlock(std::mt19937& random, TensorType type, Values values, std::vector<std::byte>& row) {
  const size_t begin = row.size(), bytes = model_file::BlockShapeOf(type).bytes;
  for (size_t at = 0; at < bytes; ++at) {
    const bool extreme = values == Values::kSaturated || values == Values::kHuge;
    row.push_back(extreme ? ExtremeByte(type, at, values == Values::kHuge) : static_cast<std::byte>(random()));
  }
  for (const size_t at : HalvesOf(type)) {
    const uint16_t half = RandomHalf(random, values);
    std::memcpy(&row[begin + at], &half, sizeof(half));
  }
}

}  // namespace

std::vector<float> RandomFloats(std::mt19937& random, size_t count, Values values) {
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) {
    const float sign = (random() & 1) != 0 ? 1.0f : -1.0f;
    switch (values) {
      case Values::kNormal:
        value = normal(random);
        break;
      case Values::kWideRange:
        value = normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 60) - 40);
        break;
      case Values::kZeros:
        value = sign * 0.0f;
        break;
      case Values::kDenormal:
        value = sign * std::bit_cast<float>(static_cast<uint32_t>(random() % 0x800000));
        break;
      case Values::kHuge:
        value = sign * 1e20f;
        break;
      case Values::kSaturated:
        value = sign * 3.0f;
        break;
    }
  }
  return out;
}

std::vector<std::vector<std::byte>> RandomFileRows(std::mt19937& random, TensorType type, int outputs, int inputs,
                                                   Values values) {
  std::vector<std::vector<std::byte>> rows(outputs);
  for (auto& row : rows) {
    if (type == TensorType::kF32) {
      const std::vector<float> floats = RandomFloats(random, inputs, values);
      Append(row, floats.data(), floats.size() * sizeof(float));
    } else if (type == TensorType::kBf16) {
      for (const float value : RandomFloats(random, inputs, values)) {
        const auto upper = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
        Append(row, &upper, sizeof(upper));
      }
    } else if (type == TensorType::kF16) {
      for (int i = 0; i < inputs; ++i) {
        const uint16_t half = RandomHalf(random, values);
        Append(row, &half, sizeof(half));
      }
    } else {
      const int block = static_cast<int>(model_file::BlockShapeOf(type).elements);
      for (int b = 0; b < inputs / block; ++b) AppendBlock(random, type, values, row);
    }
  }
  return rows;
}

PackedMatrix::PackedMatrix(TensorType type, MatmulBackend backend, int inputs,
                           std::vector<std::vector<std::byte>> file_rows)
    : rows(std::move(file_rows)),
      memory(MatrixBytes(type, backend, static_cast<int>(rows.size()), inputs)),
      matrix{type, backend, static_cast<int>(rows.size()), inputs, memory.data()} {
  for (int unit = 0; unit < matrix.units(); ++unit) {
    const std::byte* unit_rows[kUnitRows] = {};
    for (int r = 0; r < kUnitRows && unit * kUnitRows + r < matrix.outputs; ++r) {
      unit_rows[r] = rows[unit * kUnitRows + r].data();
    }
    PackUnit(matrix, unit, unit_rows);
  }
}

::testing::AssertionResult SameBits(const float* got, const float* want, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(got + i, want + i, sizeof(float)) != 0) {
      return ::testing::AssertionFailure()
             << "value " << i << " is " << got[i] << ", should be " << want[i] << std::hex << " (bits "
             << std::bit_cast<uint32_t>(got[i]) << ", " << std::bit_cast<uint32_t>(want[i]) << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace kvrelay::kernels::testing
