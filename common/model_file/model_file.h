// A model as it lies on disk, whatever the format: metadata by the names that GGUF files use, and tensors. Opens a GGUF
// file (versions 2 and 3; grammar and limits: gguf_parser.h) or a folder as Hugging Face transformers writes it
// (huggingface/folder.h), whose names it translates.
//
// Every number is checked against the files' sizes before it is used. Nothing is trusted: a truncated or lying file
// gives INVALID_ARGUMENT naming the entry and the limit, never a crash and never an allocation out of proportion to the
// file.
//
// Immutable after Open; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model_file/tensor_type.h"

namespace kvrelay::model_file {

// Place and shape of one tensor. dims[0] is contiguous in memory (so a matrix is [dims[1]][dims[0]]).
struct TensorInfo {
  std::string name;
  TensorType type;
  std::vector<uint64_t> dims;  // 1 to 4
  uint64_t offset;             // from the start of its file
  uint64_t bytes;
  size_t part = 0;  // which of the model's files
};

// A name from a file, fit for a message: quoted, escaped, cut.
std::string Quoted(std::string_view name);

class ModelFile {
 public:
  // `path` names a GGUF file or a folder. NOT_FOUND or PERMISSION_DENIED if it or a file of the folder cannot be
  // opened, INVALID_ARGUMENT if it is not sound, UNIMPLEMENTED for another version, an element type that we do not
  // compute with, or an option of a folder that is not known, DATA_LOSS if the disk fails.
  static absl::StatusOr<std::unique_ptr<ModelFile>> Open(const std::string& path);
  ~ModelFile();

  const std::string& path() const;
  uint64_t size_bytes() const;  // of all files

  // Metadata. NOT_FOUND if the key is absent, INVALID_ARGUMENT if it has another type. Integers of every width convert
  // if the value fits.
  bool Has(std::string_view key) const;
  // All keys that begin with `prefix`, in ascending order.
  std::vector<std::string> Keys(std::string_view prefix) const;
  absl::StatusOr<uint64_t> GetUint(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<std::string>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(std::string_view key) const;
  absl::StatusOr<std::vector<double>> GetFloats(std::string_view key) const;

  const std::vector<TensorInfo>& tensors() const;
  // NOT_FOUND if there is none.
  absl::StatusOr<const TensorInfo*> Find(std::string_view name) const;
  // Reads bytes [offset, offset + out.size()) of the tensor. REQUIRES: the range lies inside it. DATA_LOSS if the disk
  // fails or the file was cut after Open.
  absl::Status Read(const TensorInfo& tensor, uint64_t offset, absl::Span<std::byte> out) const;

  // SHA-256, lower-case hex: of the GGUF file, or of name, size and content of each file of a folder that was read,
  // ascending by name. Reads them all.
  absl::StatusOr<std::string> Fingerprint() const;

 private:
  struct Contents;
  explicit ModelFile(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

}  // namespace kvrelay::model_file
