#include "common/model_file/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_file/byte_reader.h"

namespace kvrelay::model_file {
namespace {

// Far above any real model (a vocabulary of 256 thousand needs some 20 MB), far below what would hurt to read.
constexpr uint64_t kMaxHeadBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxTensors = 65536;
constexpr uint64_t kMaxKeyBytes = 65535;  // both from the GGUF specification
constexpr uint64_t kMaxNameBytes = 64;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kDefaultAlignment = 32;
// The least that one entry can take: a key or name of one byte and a value of one byte, or one dim.
constexpr uint64_t kMinPairBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

template <typename... Parts>
absl::Status Unsound(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// The same error, saying where.
absl::Status In(const std::string& where, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

absl::Status CheckCount(const char* what, uint64_t count, uint64_t limit, uint64_t min_bytes, uint64_t remaining) {
  if (count > limit) return Unsound(count, " ", what, " exceed the limit of ", limit);
  if (count > remaining / min_bytes) {
    return Unsound(count, " ", what, " cannot fit in the ", remaining, " bytes that are left");
  }
  return absl::OkStatus();
}

template <typename T, typename Wide>
absl::Status ReadAs(ByteReader& in, MetadataValue& out) {
  KV_ASSIGN_OR_RETURN(const T value, in.ReadNumber<T>());
  out.emplace<Wide>(value);
  return absl::OkStatus();
}

absl::Status ReadBool(ByteReader& in, MetadataValue& out) {
  KV_ASSIGN_OR_RETURN(const uint8_t value, in.ReadNumber<uint8_t>());
  if (value > 1) return Unsound("a bool must be 0 or 1, not ", uint32_t{value});
  out = value == 1;
  return absl::OkStatus();
}

absl::Status ReadStringArray(ByteReader& in, uint64_t count, MetadataValue& out) {
  KV_RETURN_IF_ERROR(CheckCount("strings", count, kMaxHeadBytes, 8, in.remaining()));
  Strings& strings = out.emplace<Strings>();
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    KV_ASSIGN_OR_RETURN(std::string text, in.ReadString(kMaxHeadBytes));
    strings.push_back(std::move(text));
  }
  return absl::OkStatus();
}

absl::Status ReadArray(ByteReader& in, MetadataValue& out) {
  KV_ASSIGN_OR_RETURN(const uint32_t number, in.ReadNumber<uint32_t>());
  KV_ASSIGN_OR_RETURN(const uint64_t count, in.ReadNumber<uint64_t>());
  const auto type = static_cast<ValueType>(number);
  if (type == ValueType::kString) return ReadStringArray(in, count, out);
  if (type == ValueType::kArray) return Unsound("arrays of arrays are not supported");
  const size_t size = NumberBytes(type);
  if (size == 0) return Unsound("unknown array element type ", number);
  KV_RETURN_IF_ERROR(CheckCount("array elements", count, kMaxHeadBytes, size, in.remaining()));
  NumberArray& array = out.emplace<NumberArray>();
  array.type = type;
  array.bytes.resize(count * size);
  KV_RETURN_IF_ERROR(in.Read(array.bytes.data(), array.bytes.size()));
  const auto is_no_bool = [](std::byte value) { return value > std::byte{1}; };
  if (type == ValueType::kBool && std::any_of(array.bytes.begin(), array.bytes.end(), is_no_bool)) {
    return Unsound("a bool in an array must be 0 or 1");
  }
  return absl::OkStatus();
}

absl::Status ReadValue(ByteReader& in, MetadataValue& out) {
  KV_ASSIGN_OR_RETURN(const uint32_t number, in.ReadNumber<uint32_t>());
  switch (static_cast<ValueType>(number)) {
    case ValueType::kUint8:
      return ReadAs<uint8_t, uint64_t>(in, out);
    case ValueType::kInt8:
      return ReadAs<int8_t, int64_t>(in, out);
    case ValueType::kUint16:
      return ReadAs<uint16_t, uint64_t>(in, out);
    case ValueType::kInt16:
      return ReadAs<int16_t, int64_t>(in, out);
    case ValueType::kUint32:
      return ReadAs<uint32_t, uint64_t>(in, out);
    case ValueType::kInt32:
      return ReadAs<int32_t, int64_t>(in, out);
    case ValueType::kUint64:
      return ReadAs<uint64_t, uint64_t>(in, out);
    case ValueType::kInt64:
      return ReadAs<int64_t, int64_t>(in, out);
    case ValueType::kFloat32:
      return ReadAs<float, double>(in, out);
    case ValueType::kFloat64:
      return ReadAs<double, double>(in, out);
    case ValueType::kBool:
      return ReadBool(in, out);
    case ValueType::kArray:
      return ReadArray(in, out);
    case ValueType::kString: {
      KV_ASSIGN_OR_RETURN(std::string text, in.ReadString(kMaxHeadBytes));
      out = std::move(text);
      return absl::OkStatus();
    }
  }
  return Unsound("unknown value type ", number);
}

absl::Status ReadPair(ByteReader& in, Metadata& metadata) {
  KV_ASSIGN_OR_RETURN(std::string key, in.ReadString(kMaxKeyBytes));
  if (key.empty()) return Unsound("an empty key");
  const auto [place, inserted] = metadata.try_emplace(std::move(key));
  if (!inserted) return Unsound("key ", Quoted(place->first), " appears twice");
  const absl::Status status = ReadValue(in, place->second);
  return status.ok() ? status : In(absl::StrCat("key ", Quoted(place->first)), status);
}

absl::StatusOr<uint64_t> AlignmentOf(const Metadata& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  const uint64_t* alignment = std::get_if<uint64_t>(&found->second);
  // Kept to 32 bits, as the specification has it, so that rounding up cannot overflow.
  if (alignment == nullptr || *alignment > UINT32_MAX || !std::has_single_bit(*alignment)) {
    return Unsound("general.alignment must be an unsigned 32-bit power of two");
  }
  return *alignment;
}

absl::Status ReadDims(ByteReader& in, TensorInfo& tensor) {
  KV_ASSIGN_OR_RETURN(const uint32_t count, in.ReadNumber<uint32_t>());
  if (count < 1 || count > kMaxDims) return Unsound(count, " dimensions, expected 1 to ", kMaxDims);
  for (uint32_t i = 0; i < count; ++i) {
    KV_ASSIGN_OR_RETURN(const uint64_t dim, in.ReadNumber<uint64_t>());
    if (dim == 0) return Unsound("dimension ", i, " is zero");
    tensor.dims.push_back(dim);
  }
  return absl::OkStatus();
}

// tensor.offset stays relative to the data, whose start is known only after the last entry.
absl::Status ReadTensorBody(ByteReader& in, uint64_t alignment, TensorInfo& tensor) {
  KV_RETURN_IF_ERROR(ReadDims(in, tensor));
  KV_ASSIGN_OR_RETURN(const uint32_t number, in.ReadNumber<uint32_t>());
  KV_ASSIGN_OR_RETURN(tensor.offset, in.ReadNumber<uint64_t>());
  const std::optional<TensorType> type = TensorTypeFromGguf(number);
  if (!type.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat("element type ", number, " is not supported; supported are ", TensorTypeNames()));
  }
  tensor.type = *type;
  KV_RETURN_IF_ERROR(ComputeTensorBytes(tensor));
  if (tensor.offset % alignment != 0) {
    return Unsound("offset ", tensor.offset, " is no multiple of the alignment ", alignment);
  }
  return absl::OkStatus();
}

absl::Status ReadTensor(ByteReader& in, uint64_t alignment, ModelHead& head) {
  TensorInfo tensor = {};
  KV_ASSIGN_OR_RETURN(tensor.name, in.ReadString(kMaxNameBytes));
  if (tensor.name.empty()) return Unsound("a tensor without a name");
  const absl::Status status = ReadTensorBody(in, alignment, tensor);
  if (!status.ok()) return In(absl::StrCat("tensor ", Quoted(tensor.name)), status);
  if (!head.indices.try_emplace(tensor.name, head.tensors.size()).second) {
    return Unsound("tensor ", Quoted(tensor.name), " appears twice");
  }
  head.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status ReadMagicAndVersion(ByteReader& in) {
  char magic[4];
  KV_RETURN_IF_ERROR(in.Read(magic, sizeof(magic)));
  if (std::memcmp(magic, "GGUF", 4) != 0) return Unsound("not a GGUF file: it starts with ", Quoted({magic, 4}));
  KV_ASSIGN_OR_RETURN(const uint32_t version, in.ReadNumber<uint32_t>());
  if (version == 2 || version == 3) return absl::OkStatus();
  if (__builtin_bswap32(version) == 3)
    return absl::UnimplementedError("a big-endian GGUF file; convert it to little-endian");
  return absl::UnimplementedError(absl::StrCat("GGUF version ", version, " is not supported; supported are 2 and 3"));
}

}  // namespace

absl::Status ComputeTensorBytes(TensorInfo& tensor) {
  const BlockShape block = BlockShapeOf(tensor.type);
  if (tensor.dims[0] % block.elements != 0) {
    return Unsound("rows of ", tensor.dims[0], " elements are no whole blocks of ", block.elements, " (",
                   std::string(TensorTypeName(tensor.type)), ")");
  }
  uint64_t bytes = tensor.dims[0] / block.elements;
  bool overflow = __builtin_mul_overflow(bytes, uint64_t{block.bytes}, &bytes);
  for (size_t i = 1; i < tensor.dims.size(); ++i) overflow |= __builtin_mul_overflow(bytes, tensor.dims[i], &bytes);
  if (overflow) return Unsound("the product of its dimensions overflows");
  tensor.bytes = bytes;
  return absl::OkStatus();
}

absl::Status PlaceTensors(uint64_t data_start, uint64_t file_bytes, absl::Span<TensorInfo> tensors) {
  if (tensors.empty()) return absl::OkStatus();
  const uint64_t data_bytes = data_start <= file_bytes ? file_bytes - data_start : 0;
  std::vector<const TensorInfo*> order;
  for (TensorInfo& tensor : tensors) {
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      return Unsound("tensor ", Quoted(tensor.name), " leaves the file: ", tensor.bytes, " bytes at offset ",
                     tensor.offset, " of ", data_bytes, " bytes of data (is the file complete?)");
    }
    tensor.offset += data_start;
    order.push_back(&tensor);
  }
  const auto by_offset = [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; };
  std::sort(order.begin(), order.end(), by_offset);
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset) {
      return Unsound("tensors ", Quoted(order[i - 1]->name), " and ", Quoted(order[i]->name), " overlap");
    }
  }
  return absl::OkStatus();
}

size_t NumberBytes(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUint16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  return 0;
}

absl::StatusOr<ModelHead> ParseGguf(int fd, uint64_t file_bytes) {
  ByteReader in(fd, std::min(file_bytes, kMaxHeadBytes));
  KV_RETURN_IF_ERROR(ReadMagicAndVersion(in));
  KV_ASSIGN_OR_RETURN(const uint64_t tensor_count, in.ReadNumber<uint64_t>());
  KV_ASSIGN_OR_RETURN(const uint64_t key_count, in.ReadNumber<uint64_t>());
  ModelHead head;
  KV_RETURN_IF_ERROR(CheckCount("keys", key_count, kMaxKeys, kMinPairBytes, in.remaining()));
  for (uint64_t i = 0; i < key_count; ++i) {
    if (absl::Status status = ReadPair(in, head.metadata); !status.ok())
      return In(absl::StrCat("metadata ", i), status);
  }
  KV_ASSIGN_OR_RETURN(const uint64_t alignment, AlignmentOf(head.metadata));
  KV_RETURN_IF_ERROR(CheckCount("tensors", tensor_count, kMaxTensors, kMinTensorBytes, in.remaining()));
  for (uint64_t i = 0; i < tensor_count; ++i) {
    if (absl::Status status = ReadTensor(in, alignment, head); !status.ok())
      return In(absl::StrCat("tensor entry ", i), status);
  }
  const uint64_t data_start = (in.position() + alignment - 1) / alignment * alignment;
  KV_RETURN_IF_ERROR(PlaceTensors(data_start, file_bytes, absl::MakeSpan(head.tensors)));
  return head;
}

}  // namespace kvrelay::model_file
