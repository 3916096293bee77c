#include "common/model_file/huggingface/safetensors.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_file/byte_reader.h"
#include "common/model_file/gguf_parser.h"
#include "common/model_file/huggingface/json.h"

namespace kvrelay::model_file::huggingface {
namespace {

// A tensor takes about 120 bytes of header; the largest models have a few thousand per file.
constexpr uint64_t kMaxHeaderBytes = 16 << 20;
constexpr size_t kMaxTensors = 65536;
constexpr size_t kMaxDims = 4;

absl::StatusOr<TensorType> TypeOf(const Json& entry) {
  KV_ASSIGN_OR_RETURN(const std::string name, TextOr(entry, "dtype", "entry", ""));
  if (name == "F32") return TensorType::kF32;
  if (name == "F16") return TensorType::kF16;
  if (name == "BF16") return TensorType::kBf16;
  return absl::UnimplementedError(
      absl::StrCat("element type ", Quoted(name), " is not supported; supported are F32, F16, BF16"));
}

absl::StatusOr<std::vector<uint64_t>> Integers(const Json& entry, const char* name, size_t low, size_t high) {
  const Json* list = Field(entry, name);
  if (list == nullptr || !list->is_array() || list->size() < low || list->size() > high)
    return absl::InvalidArgumentError(absl::StrCat(name, " must be a list of ", low, " to ", high, " integers"));
  std::vector<uint64_t> integers;
  for (const Json& each : *list) {
    if (!each.is_number_unsigned())
      return absl::InvalidArgumentError(absl::StrCat(name, " must be a list of unsigned integers"));
    integers.push_back(each.get<uint64_t>());
  }
  return integers;
}

absl::StatusOr<TensorInfo> ReadEntry(const std::string& name, const Json& entry, size_t part) {
  if (!entry.is_object()) return absl::InvalidArgumentError("its entry is not an object");
  TensorInfo tensor = {.name = name, .type = TensorType::kF32, .dims = {}, .offset = 0, .bytes = 0, .part = part};
  KV_ASSIGN_OR_RETURN(tensor.type, TypeOf(entry));
  KV_ASSIGN_OR_RETURN(tensor.dims, Integers(entry, "shape", 1, kMaxDims));
  std::reverse(tensor.dims.begin(), tensor.dims.end());
  if (std::count(tensor.dims.begin(), tensor.dims.end(), 0u) > 0)
    return absl::InvalidArgumentError("a dimension is zero");
  KV_RETURN_IF_ERROR(ComputeTensorBytes(tensor));
  KV_ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, Integers(entry, "data_offsets", 2, 2));
  tensor.offset = offsets[0];
  if (offsets[1] < offsets[0] || offsets[1] - offsets[0] != tensor.bytes)
    return absl::InvalidArgumentError(absl::StrCat("data_offsets ", offsets[0], " to ", offsets[1], " are not the ",
                                                   tensor.bytes, " bytes of its shape"));
  return tensor;
}

absl::StatusOr<std::string> ReadHeader(const OpenFile& file) {
  ByteReader in(file.fd(), file.bytes());
  KV_ASSIGN_OR_RETURN(const uint64_t bytes, in.ReadNumber<uint64_t>());
  if (bytes > in.remaining() || bytes > kMaxHeaderBytes)
    return absl::InvalidArgumentError(absl::StrCat("the header claims ", bytes, " bytes; ", in.remaining(),
                                                   " are left in the file, and at most ", kMaxHeaderBytes,
                                                   " are allowed"));
  std::string header(bytes, '\0');
  KV_RETURN_IF_ERROR(in.Read(header.data(), bytes));
  return header;
}

absl::StatusOr<std::vector<TensorInfo>> ReadTable(const OpenFile& file, size_t part) {
  KV_ASSIGN_OR_RETURN(const std::string header, ReadHeader(file));
  KV_ASSIGN_OR_RETURN(const Json table, ParseObject(header, "header"));
  if (table.size() > kMaxTensors + 1)
    return absl::InvalidArgumentError(absl::StrCat(table.size(), " tensors exceed the limit of ", kMaxTensors));
  std::vector<TensorInfo> tensors;
  for (const auto& [name, entry] : table.items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<TensorInfo> tensor = ReadEntry(name, entry, part);
    if (!tensor.ok())
      return absl::Status(tensor.status().code(),
                          absl::StrCat("tensor ", Quoted(name), ": ", tensor.status().message()));
    tensors.push_back(*std::move(tensor));
  }
  KV_RETURN_IF_ERROR(PlaceTensors(sizeof(uint64_t) + header.size(), file.bytes(), absl::MakeSpan(tensors)));
  return tensors;
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> ReadSafetensors(const OpenFile& file, size_t part) {
  absl::StatusOr<std::vector<TensorInfo>> tensors = ReadTable(file, part);
  if (tensors.ok()) return tensors;
  return absl::Status(tensors.status().code(), absl::StrCat(file.name(), ": ", tensors.status().message()));
}

}  // namespace kvrelay::model_file::huggingface
