#include "common/model_file/gguf.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model_file/byte_reader.h"
#include "common/model_file/gguf_parser.h"
#include "common/model_file/types/type_table.h"

namespace kvrelay::model_file {
namespace {

constexpr uint64_t kHashStepBytes = 1 << 20;

absl::Status WrongType(std::string_view key, const char* wanted) {
  return absl::InvalidArgumentError(absl::StrCat("metadata key ", Quoted(key), " is not ", wanted));
}

// Calls use(value) for each number of the array, with its own type.
template <typename T, typename Use>
void ForEachOf(const NumberArray& array, const Use& use) {
  for (size_t i = 0; i < array.bytes.size(); i += sizeof(T)) use(LoadField<T>(array.bytes.data() + i));
}

// False if it is not an array of integers.
template <typename Use>
bool ForEachInteger(const NumberArray& array, const Use& use) {
  switch (array.type) {
    case ValueType::kUint8:
      return ForEachOf<uint8_t>(array, use), true;
    case ValueType::kInt8:
      return ForEachOf<int8_t>(array, use), true;
    case ValueType::kUint16:
      return ForEachOf<uint16_t>(array, use), true;
    case ValueType::kInt16:
      return ForEachOf<int16_t>(array, use), true;
    case ValueType::kUint32:
      return ForEachOf<uint32_t>(array, use), true;
    case ValueType::kInt32:
      return ForEachOf<int32_t>(array, use), true;
    case ValueType::kUint64:
      return ForEachOf<uint64_t>(array, use), true;
    case ValueType::kInt64:
      return ForEachOf<int64_t>(array, use), true;
    default:
      return false;
  }
}

}  // namespace

struct GgufFile::Contents {
  Contents(std::string path, int fd) : path(std::move(path)), fd(fd) {}
  ~Contents() { close(fd); }

  // nullptr if the key is absent.
  const MetadataValue* Lookup(std::string_view key) const {
    const auto found = head.metadata.find(key);
    return found == head.metadata.end() ? nullptr : &found->second;
  }
  // NOT_FOUND if the key is absent, INVALID_ARGUMENT ("is not <wanted>") if it has another type than T.
  template <typename T>
  absl::StatusOr<const T*> Get(std::string_view key, const char* wanted) const {
    const MetadataValue* value = Lookup(key);
    if (value == nullptr) return absl::NotFoundError(absl::StrCat("metadata key ", Quoted(key), " is absent"));
    const T* typed = std::get_if<T>(value);
    if (typed == nullptr) return WrongType(key, wanted);
    return typed;
  }

  const std::string path;
  const int fd;
  uint64_t size_bytes = 0;
  GgufHead head;
};

GgufFile::GgufFile(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
GgufFile::~GgufFile() = default;

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  // Not blocking, so that a pipe under this name is refused instead of waited for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open model file ", path));
  auto contents = std::make_unique<Contents>(path, fd);
  struct stat status;
  if (fstat(fd, &status) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot examine model file ", path));
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  contents->size_bytes = static_cast<uint64_t>(status.st_size);
  absl::StatusOr<GgufHead> head = ParseGguf(fd, contents->size_bytes);
  if (!head.ok()) {
    return absl::Status(head.status().code(), absl::StrCat("model file ", path, ": ", head.status().message()));
  }
  contents->head = *std::move(head);
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(contents)));
}

const std::string& GgufFile::path() const { return contents_->path; }
uint64_t GgufFile::size_bytes() const { return contents_->size_bytes; }

bool GgufFile::Has(std::string_view key) const { return contents_->Lookup(key) != nullptr; }

std::vector<std::string> GgufFile::Keys(std::string_view prefix) const {
  std::vector<std::string> keys;
  const Metadata& all = contents_->head.metadata;
  for (auto it = all.lower_bound(prefix); it != all.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it)
    keys.push_back(it->first);
  return keys;
}

absl::StatusOr<uint64_t> GgufFile::GetUint(std::string_view key) const {
  const MetadataValue* value = contents_->Lookup(key);
  if (value != nullptr && std::holds_alternative<int64_t>(*value) && std::get<int64_t>(*value) >= 0) {
    return static_cast<uint64_t>(std::get<int64_t>(*value));
  }
  KV_ASSIGN_OR_RETURN(const uint64_t* number, contents_->Get<uint64_t>(key, "a non-negative integer"));
  return *number;
}

absl::StatusOr<double> GgufFile::GetFloat(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const double* number, contents_->Get<double>(key, "a floating-point number"));
  return *number;
}

absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const bool* flag, contents_->Get<bool>(key, "a bool"));
  return *flag;
}

absl::StatusOr<std::string> GgufFile::GetString(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const std::string* text, contents_->Get<std::string>(key, "a string"));
  return *text;
}

absl::StatusOr<std::vector<std::string>> GgufFile::GetStrings(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const Strings* strings, contents_->Get<Strings>(key, "an array of strings"));
  return *strings;
}

absl::StatusOr<std::vector<int64_t>> GgufFile::GetInts(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const NumberArray* array, contents_->Get<NumberArray>(key, "an array of integers"));
  std::vector<int64_t> out;
  out.reserve(array->bytes.size() / NumberBytes(array->type));
  bool fits = true;
  const bool integers = ForEachInteger(*array, [&](auto value) {
    fits = fits && std::in_range<int64_t>(value);
    out.push_back(static_cast<int64_t>(value));
  });
  if (!integers) return WrongType(key, "an array of integers");
  if (!fits) return WrongType(key, "an array of integers below 2^63");
  return out;
}

absl::StatusOr<std::vector<double>> GgufFile::GetFloats(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const NumberArray* array, contents_->Get<NumberArray>(key, "an array of floating-point numbers"));
  std::vector<double> out;
  out.reserve(array->bytes.size() / NumberBytes(array->type));
  const auto append = [&](auto value) { out.push_back(value); };
  if (array->type == ValueType::kFloat32) {
    ForEachOf<float>(*array, append);
  } else if (array->type == ValueType::kFloat64) {
    ForEachOf<double>(*array, append);
  } else {
    return WrongType(key, "an array of floating-point numbers");
  }
  return out;
}

const std::vector<TensorInfo>& GgufFile::tensors() const { return contents_->head.tensors; }

absl::StatusOr<const TensorInfo*> GgufFile::Find(std::string_view name) const {
  const auto found = contents_->head.indices.find(name);
  if (found == contents_->head.indices.end()) {
    return absl::NotFoundError(absl::StrCat("the model file has no tensor ", Quoted(name)));
  }
  return &contents_->head.tensors[found->second];
}

absl::Status GgufFile::Read(const TensorInfo& tensor, uint64_t offset, absl::Span<std::byte> out) const {
  KV_CHECK(offset <= tensor.bytes && out.size() <= tensor.bytes - offset, "reads stay inside a tensor");
  const absl::Status status = ReadFully(contents_->fd, out.data(), out.size(), tensor.offset + offset);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("tensor ", Quoted(tensor.name), ": ", status.message()));
}

absl::StatusOr<std::string> GgufFile::Fingerprint() const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  KV_CHECK(hash != nullptr && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has SHA-256");
  std::vector<std::byte> buffer(std::min(kHashStepBytes, contents_->size_bytes));
  for (uint64_t done = 0; done < contents_->size_bytes; done += buffer.size()) {
    buffer.resize(std::min(kHashStepBytes, contents_->size_bytes - done));
    KV_RETURN_IF_ERROR(ReadFully(contents_->fd, buffer.data(), buffer.size(), done));
    KV_CHECK(EVP_DigestUpdate(hash.get(), buffer.data(), buffer.size()) == 1, "hashing memory cannot fail");
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int digest_bytes = 0;
  KV_CHECK(EVP_DigestFinal_ex(hash.get(), digest, &digest_bytes) == 1, "hashing memory cannot fail");
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), digest_bytes));
}

}  // namespace kvrelay::model_file
