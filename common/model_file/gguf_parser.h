// The grammar of a GGUF file's head (all numbers little-endian):
//
//   file     = "GGUF" version:u32 tensors:u64 keys:u64 pair{keys} tensor{tensors} padding data
//   pair     = key:string type:u32 value          a key appears once; at most 65535 bytes
//   value    = number | bool:u8 (0 or 1) | string | array
//   string   = length:u64 byte{length}
//   array    = type:u32 count:u64 value{count}    values without their type; arrays do not nest
//   tensor   = name:string dims:u32 dim:u64{dims} type:u32 offset:u64
//              1 to 4 dims, the first contiguous; offset from the start of data, a multiple of the alignment
//   data     starts at the next multiple of general.alignment (default 32, a power of two)
//
// Versions 2 and 3 are the same on little-endian machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model_file/gguf.h"

namespace kvrelay::model_file {

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

// Numbers and bools stay packed as in the file, so that memory stays in proportion to it.
struct NumberArray {
  ValueType type;
  std::vector<std::byte> bytes;
};
using Strings = std::vector<std::string>;
using MetadataValue = std::variant<uint64_t, int64_t, double, bool, std::string, NumberArray, Strings>;
using Metadata = std::map<std::string, MetadataValue, std::less<>>;

struct GgufHead {
  Metadata metadata;
  std::vector<TensorInfo> tensors;                     // in the file's order
  std::map<std::string, size_t, std::less<>> indices;  // name -> place in `tensors`
};

// Bytes of one number or bool; 0 for strings, arrays and unknown types.
size_t NumberBytes(ValueType type);

// A name from the file, fit for a message: quoted, escaped, cut.
std::string Quoted(std::string_view name);

// Reads and checks the head of the file. INVALID_ARGUMENT for an unsound file, UNIMPLEMENTED for another version or an
// element type that we do not compute with, DATA_LOSS if reading fails.
absl::StatusOr<GgufHead> ParseGguf(int fd, uint64_t file_bytes);

}  // namespace kvrelay::model_file
