// Reading JSON files of a model folder: bounded in size, and every field with a check of its type. The JSON library
// stays inside of this folder.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model_file/open_file.h"

namespace kvrelay::model_file::huggingface {

using Json = nlohmann::json;

// An object out of `text`; names that occur twice in it are refused. INVALID_ARGUMENT that begins with `name`.
absl::StatusOr<Json> ParseObject(const std::string& text, const std::string& name);
// The same of a file of at most `max_bytes`.
absl::StatusOr<Json> ReadObject(const OpenFile& file, uint64_t max_bytes);
absl::StatusOr<std::string> ReadText(const OpenFile& file, uint64_t max_bytes);

// The field of that name; null if it is absent or null.
const Json* Field(const Json& object, const char* name);

// `where` begins the message: "config.json". INVALID_ARGUMENT if the field has another type or is out of range; the
// value given last if it is absent.
absl::StatusOr<uint64_t> UintOr(const Json& object, const char* name, const char* where, uint64_t otherwise);
absl::StatusOr<double> NumberOr(const Json& object, const char* name, const char* where, double otherwise);
absl::StatusOr<bool> BoolOr(const Json& object, const char* name, const char* where, bool otherwise);
absl::StatusOr<std::string> TextOr(const Json& object, const char* name, const char* where, const char* otherwise);

// UNIMPLEMENTED naming the first field of `object` that is not null and not in `known`. Names that begin with "_" are
// notes.
absl::Status CheckFields(const Json& object, const char* where, const std::vector<std::string>& known);

}  // namespace kvrelay::model_file::huggingface
