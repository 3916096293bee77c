// Writes GGUF files for tests. Sound by default; any number can be overridden to make the file lie.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/model_file/gguf_parser.h"
#include "common/model_file/tensor_type.h"

namespace kvrelay::testing {

// What the file says when that is not the truth. Names refer to the grammar in gguf_parser.h.
struct GgufLies {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count, key_count;
};
struct GgufTensorLies {
  std::optional<std::vector<uint64_t>> dims = std::nullopt;
  std::optional<uint32_t> dim_count = std::nullopt;
  std::optional<uint32_t> type = std::nullopt;
  std::optional<uint64_t> offset = std::nullopt;
};

class GgufWriter {
 public:
  // Metadata, in the order of the calls.
  void AddUint8(const std::string& key, uint8_t value) { AddNumber(key, model_file::ValueType::kUint8, value); }
  void AddInt8(const std::string& key, int8_t value) { AddNumber(key, model_file::ValueType::kInt8, value); }
  void AddUint16(const std::string& key, uint16_t value) { AddNumber(key, model_file::ValueType::kUint16, value); }
  void AddInt16(const std::string& key, int16_t value) { AddNumber(key, model_file::ValueType::kInt16, value); }
  void AddUint32(const std::string& key, uint32_t value) { AddNumber(key, model_file::ValueType::kUint32, value); }
  void AddInt32(const std::string& key, int32_t value) { AddNumber(key, model_file::ValueType::kInt32, value); }
  void AddUint64(const std::string& key, uint64_t value) { AddNumber(key, model_file::ValueType::kUint64, value); }
  void AddInt64(const std::string& key, int64_t value) { AddNumber(key, model_file::ValueType::kInt64, value); }
  void AddFloat32(const std::string& key, float value) { AddNumber(key, model_file::ValueType::kFloat32, value); }
  void AddFloat64(const std::string& key, double value) { AddNumber(key, model_file::ValueType::kFloat64, value); }
  void AddBool(const std::string& key, bool value) { AddNumber(key, model_file::ValueType::kBool, uint8_t{value}); }
  void AddString(const std::string& key, const std::string& value);
  void AddStrings(const std::string& key, const std::vector<std::string>& values);
  // An array of numbers whose width is that of `type`.
  template <typename T>
  void AddArray(const std::string& key, model_file::ValueType type, const std::vector<T>& values) {
    AddRawArray(key, static_cast<uint32_t>(type), values.size(),
                std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }
  // As they come: any type number, any claimed count, any bytes.
  void AddRaw(const std::string& key, uint32_t type, const std::string& value_bytes);
  void AddRawArray(const std::string& key, uint32_t element_type, uint64_t count, const std::string& bytes);

  // Takes back what was added under that name, so that another value can be added.
  void DropKey(const std::string& key);
  void DropTensor(const std::string& name);

  // `data` is the tensor's bytes in the file's form.
  void AddTensor(const std::string& name, model_file::TensorType type, const std::vector<uint64_t>& dims,
                 std::string data, const GgufTensorLies& lies = {});

  // Of the data and of every tensor in it; writes no metadata key. Default 32.
  void SetAlignment(uint64_t alignment) { alignment_ = alignment; }
  GgufLies& lies() { return lies_; }

  // Bytes up to where the data starts, and the whole file.
  std::string Head() const;
  std::string Bytes() const;
  // Writes the whole file. False if that fails.
  bool WriteTo(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<uint64_t> dims;
    std::string data;
    GgufTensorLies lies;
  };

  template <typename T>
  void AddNumber(const std::string& key, model_file::ValueType type, T value) {
    AddRaw(key, static_cast<uint32_t>(type), std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
  }

  GgufLies lies_;
  uint64_t alignment_ = 32;
  struct Pair {
    std::string key;
    std::string bytes;  // type and value
  };
  std::vector<Pair> pairs_;
  std::vector<Tensor> tensors_;
};

// A u64 length and the bytes.
std::string GgufString(std::string_view text);

}  // namespace kvrelay::testing
