#include "common/model_file/huggingface/json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_file/byte_reader.h"
#include "common/model_file/model_file.h"

namespace kvrelay::model_file::huggingface {
namespace {

// Real files nest about 6 deep.
constexpr int kMaxDepth = 64;

absl::Status WrongType(const char* where, const char* name, const char* wanted) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", name, " must be ", wanted));
}

}  // namespace

absl::StatusOr<Json> ParseObject(const std::string& text, const std::string& name) {
  std::vector<size_t> names;  // per open object: how many names it had
  std::string fault;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) fault = absl::StrCat("nests deeper than ", kMaxDepth);
    if (event == Json::parse_event_t::object_start) names.push_back(0);
    if (event == Json::parse_event_t::key) ++names.back();
    if (event == Json::parse_event_t::object_end) {
      if (parsed.size() != names.back() && fault.empty()) fault = "a name occurs twice in an object";
      names.pop_back();
    }
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) fault = "it is not JSON";
  if (fault.empty() && !json.is_object()) fault = "it is not an object";
  if (!fault.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", fault));
  return json;
}

absl::StatusOr<std::string> ReadText(const OpenFile& file, uint64_t max_bytes) {
  if (file.bytes() > max_bytes)
    return absl::InvalidArgumentError(
        absl::StrCat(file.name(), " has ", file.bytes(), " bytes, more than ", max_bytes));
  std::string text(file.bytes(), '\0');
  KV_RETURN_IF_ERROR(ReadFully(file.fd(), text.data(), text.size(), 0));
  return text;
}

absl::StatusOr<Json> ReadObject(const OpenFile& file, uint64_t max_bytes) {
  KV_ASSIGN_OR_RETURN(const std::string text, ReadText(file, max_bytes));
  return ParseObject(text, file.name());
}

const Json* Field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<uint64_t> UintOr(const Json& object, const char* name, const char* where, uint64_t otherwise) {
  const Json* field = Field(object, name);
  if (field == nullptr) return otherwise;
  if (!field->is_number_unsigned()) return WrongType(where, name, "an unsigned integer");
  return field->get<uint64_t>();
}

absl::StatusOr<double> NumberOr(const Json& object, const char* name, const char* where, double otherwise) {
  const Json* field = Field(object, name);
  if (field == nullptr) return otherwise;
  if (!field->is_number()) return WrongType(where, name, "a number");
  return field->get<double>();
}

absl::StatusOr<bool> BoolOr(const Json& object, const char* name, const char* where, bool otherwise) {
  const Json* field = Field(object, name);
  if (field == nullptr) return otherwise;
  if (!field->is_boolean()) return WrongType(where, name, "true or false");
  return field->get<bool>();
}

absl::StatusOr<std::string> TextOr(const Json& object, const char* name, const char* where, const char* otherwise) {
  const Json* field = Field(object, name);
  if (field == nullptr) return std::string(otherwise);
  if (!field->is_string()) return WrongType(where, name, "a string");
  return field->get<std::string>();
}

absl::Status CheckFields(const Json& object, const char* where, const std::vector<std::string>& known) {
  for (const auto& [name, value] : object.items()) {
    const bool is_note = name.rfind('_', 0) == 0;  // transformers' own, such as _name_or_path
    if (std::find(known.begin(), known.end(), name) == known.end() && !value.is_null() && !is_note)
      return absl::UnimplementedError(
          absl::StrCat(where, ": ", Quoted(name), " is not known and may change what the model computes"));
  }
  return absl::OkStatus();
}

}  // namespace kvrelay::model_file::huggingface
