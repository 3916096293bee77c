#include "router/http/json_fields.h"

#include "absl/strings/str_cat.h"

namespace kvrelay::http {
namespace {

constexpr size_t kCauseBytesMax = 256;

ApiError BadBody(const std::string& message) { return {.status = 400, .message = message}; }

// Counts brackets and separators outside strings; whether they fit together is for the parser to say.
std::optional<ApiError> CheckSize(const std::string& body) {
  int depth = 0, values = 0;
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth, ++values;
    if (c == ']' || c == '}') --depth;
    if (c == ',') ++values;
    if (depth > kJsonDepthMax) return BadBody(absl::StrCat("the JSON is nested deeper than ", kJsonDepthMax));
    if (values > kJsonValuesMax) return BadBody(absl::StrCat("the JSON has more than ", kJsonValuesMax, " values"));
  }
  return std::nullopt;
}

}  // namespace

Result<Json> ParseObject(const std::string& body) {
  if (auto error = CheckSize(body)) return *error;
  try {
    Json parsed = Json::parse(body);
    if (!parsed.is_object()) return BadBody("the body must be a JSON object");
    return parsed;
  } catch (const Json::exception& error) {
    // Names the place, and quotes what was read last: as much as the client likes.
    return BadBody(absl::StrCat("the body is not valid JSON: ", std::string(error.what()).substr(0, kCauseBytesMax)));
  }
}

const Json* Fields::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> Fields::Bool(const char* name) {
  const Json* const value = Find(name);
  if (value == nullptr || error_) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, "true or false");
  return std::nullopt;
}

std::optional<std::string> Fields::String(const char* name) {
  const Json* const value = Find(name);
  if (value == nullptr || error_) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(name, "a string");
  return std::nullopt;
}

std::optional<double> Fields::Number(const char* name) {
  const Json* const value = Find(name);
  if (value == nullptr || error_) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  Fail(name, "a number");
  return std::nullopt;
}

std::optional<int64_t> Fields::Integer(const char* name, int64_t min, int64_t max) {
  const Json* const value = Find(name);
  if (value == nullptr || error_) return std::nullopt;
  if (IsInteger(*value, min, max)) return value->get<int64_t>();
  Fail(name, absl::StrCat("an integer from ", min, " to ", max));
  return std::nullopt;
}

bool IsInteger(const Json& value, int64_t min, int64_t max) {
  // What does not fit into 63 bits is unsigned and above them.
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
  return value.get<int64_t>() >= min && value.get<int64_t>() <= max;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace kvrelay::http
