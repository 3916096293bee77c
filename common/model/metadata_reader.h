// Values of one architecture's own section of the metadata, each checked against the range that we can take.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_file/model_file.h"

namespace kvrelay::model {

// Keys are given without `prefix`. INVALID_ARGUMENT naming the key and the range if a value is outside of it; NOT_FOUND
// if it is absent.
class MetadataReader {
 public:
  MetadataReader(const model_file::ModelFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  bool Has(const char* key) const { return file_.Has(absl::StrCat(prefix_, key)); }
  absl::StatusOr<int> Int(const char* key, int low, int high) const {
    const std::string name = absl::StrCat(prefix_, key);
    KV_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(name));
    if (value < static_cast<uint64_t>(low) || value > static_cast<uint64_t>(high))
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", must be ", low, " to ", high));
    return static_cast<int>(value);
  }
  absl::StatusOr<int> IntOr(const char* key, int low, int high, int otherwise) const {
    return Has(key) ? Int(key, low, high) : absl::StatusOr<int>(otherwise);
  }
  absl::StatusOr<float> FloatOr(const char* key, double low, double high, double otherwise) const {
    const std::string name = absl::StrCat(prefix_, key);
    if (!file_.Has(name)) return static_cast<float>(otherwise);
    KV_ASSIGN_OR_RETURN(const double value, file_.GetFloat(name));
    if (!(value >= low && value <= high))
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", must be ", low, " to ", high));
    return static_cast<float>(value);
  }

 private:
  const model_file::ModelFile& file_;
  const std::string prefix_;
};

}  // namespace kvrelay::model
