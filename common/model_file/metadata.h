// Metadata and tensor table of a model in memory, by the names and types that GGUF files have. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/model_file/model_file.h"

namespace kvrelay::model_file {

// Numbers are those of GGUF files.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Numbers and bools stay packed as in a file, so that memory stays in proportion to it.
struct NumberArray {
  ValueType type;
  std::vector<std::byte> bytes;
};
using Strings = std::vector<std::string>;
using MetadataValue = std::variant<uint64_t, int64_t, double, bool, std::string, NumberArray, Strings>;
using Metadata = std::map<std::string, MetadataValue, std::less<>>;

// What a model's files say, but for the data.
struct ModelHead {
  Metadata metadata;
  std::vector<TensorInfo> tensors;                     // in the file's order
  std::map<std::string, size_t, std::less<>> indices;  // name -> place in `tensors`
};

}  // namespace kvrelay::model_file
