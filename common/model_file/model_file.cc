#include "common/model_file/model_file.h"

#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model_file/byte_reader.h"
#include "common/model_file/gguf_parser.h"
#include "common/model_file/huggingface/folder.h"
#include "common/model_file/open_file.h"
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

struct ModelFile::Contents {
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

  std::string path;
  bool is_folder = false;
  std::vector<OpenFile> files;  // the GGUF file, or those of the folder, ascending by name
  ModelHead head;
};

ModelFile::ModelFile(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
ModelFile::~ModelFile() = default;

absl::StatusOr<std::unique_ptr<ModelFile>> ModelFile::Open(const std::string& path) {
  auto contents = std::make_unique<Contents>();
  contents->path = path;
  struct stat status;
  contents->is_folder = stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  absl::StatusOr<ModelHead> head;
  if (contents->is_folder) {
    head = huggingface::ReadFolder(path, contents->files);
  } else {
    KV_ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(path, ""));
    contents->files.push_back(std::move(file));
    head = ParseGguf(contents->files[0].fd(), contents->files[0].bytes());
  }
  if (!head.ok()) {
    return absl::Status(head.status().code(), absl::StrCat("model ", contents->is_folder ? "folder " : "file ", path,
                                                           ": ", head.status().message()));
  }
  contents->head = *std::move(head);
  return std::unique_ptr<ModelFile>(new ModelFile(std::move(contents)));
}

const std::string& ModelFile::path() const { return contents_->path; }
uint64_t ModelFile::size_bytes() const {
  uint64_t bytes = 0;
  for (const OpenFile& file : contents_->files) bytes += file.bytes();
  return bytes;
}

bool ModelFile::Has(std::string_view key) const { return contents_->Lookup(key) != nullptr; }

std::vector<std::string> ModelFile::Keys(std::string_view prefix) const {
  std::vector<std::string> keys;
  const Metadata& all = contents_->head.metadata;
  for (auto it = all.lower_bound(prefix); it != all.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it)
    keys.push_back(it->first);
  return keys;
}

absl::StatusOr<uint64_t> ModelFile::GetUint(std::string_view key) const {
  const MetadataValue* value = contents_->Lookup(key);
  if (value != nullptr && std::holds_alternative<int64_t>(*value) && std::get<int64_t>(*value) >= 0) {
    return static_cast<uint64_t>(std::get<int64_t>(*value));
  }
  KV_ASSIGN_OR_RETURN(const uint64_t* number, contents_->Get<uint64_t>(key, "a non-negative integer"));
  return *number;
}

absl::StatusOr<double> ModelFile::GetFloat(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const double* number, contents_->Get<double>(key, "a floating-point number"));
  return *number;
}

absl::StatusOr<bool> ModelFile::GetBool(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const bool* flag, contents_->Get<bool>(key, "a bool"));
  return *flag;
}

absl::StatusOr<std::string> ModelFile::GetString(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const std::string* text, contents_->Get<std::string>(key, "a string"));
  return *text;
}

absl::StatusOr<std::vector<std::string>> ModelFile::GetStrings(std::string_view key) const {
  KV_ASSIGN_OR_RETURN(const Strings* strings, contents_->Get<Strings>(key, "an array of strings"));
  return *strings;
}

absl::StatusOr<std::vector<int64_t>> ModelFile::GetInts(std::string_view key) const {
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

absl::StatusOr<std::vector<double>> ModelFile::GetFloats(std::string_view key) const {
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

const std::vector<TensorInfo>& ModelFile::tensors() const { return contents_->head.tensors; }

absl::StatusOr<const TensorInfo*> ModelFile::Find(std::string_view name) const {
  const auto found = contents_->head.indices.find(name);
  if (found == contents_->head.indices.end()) {
    return absl::NotFoundError(absl::StrCat("the model file has no tensor ", Quoted(name)));
  }
  return &contents_->head.tensors[found->second];
}

absl::Status ModelFile::Read(const TensorInfo& tensor, uint64_t offset, absl::Span<std::byte> out) const {
  KV_CHECK(offset <= tensor.bytes && out.size() <= tensor.bytes - offset, "reads stay inside a tensor");
  const absl::Status status =
      ReadFully(contents_->files[tensor.part].fd(), out.data(), out.size(), tensor.offset + offset);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("tensor ", Quoted(tensor.name), ": ", status.message()));
}

absl::StatusOr<std::string> ModelFile::Fingerprint() const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  KV_CHECK(hash != nullptr && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has SHA-256");
  const auto add = [&](const void* bytes, size_t count) {
    KV_CHECK(EVP_DigestUpdate(hash.get(), bytes, count) == 1, "hashing memory cannot fail");
  };
  for (const OpenFile& file : contents_->files) {
    const std::string heading = absl::StrCat(file.name(), "\n", file.bytes(), "\n");
    if (contents_->is_folder) add(heading.data(), heading.size());
    std::vector<std::byte> buffer;
    for (uint64_t done = 0; done < file.bytes(); done += buffer.size()) {
      buffer.resize(std::min(kHashStepBytes, file.bytes() - done));
      KV_RETURN_IF_ERROR(ReadFully(file.fd(), buffer.data(), buffer.size(), done));
      add(buffer.data(), buffer.size());
    }
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int digest_bytes = 0;
  KV_CHECK(EVP_DigestFinal_ex(hash.get(), digest, &digest_bytes) == 1, "hashing memory cannot fail");
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), digest_bytes));
}

std::string Quoted(std::string_view name) {
  constexpr size_t kShown = 80;
  return absl::StrCat("'", absl::CHexEscape(std::string(name.substr(0, kShown))), name.size() > kShown ? "..." : "",
                      "'");
}

}  // namespace kvrelay::model_file
