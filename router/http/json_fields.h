// Reads typed fields of a JSON object that a client sent. The first field that is not as it must be is the error; what
// is read after it are absent values. A field that is null counts as absent, as OpenAI's clients mean it.
//
// Used by one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "router/http/api_error.h"

namespace kvrelay::http {

using Json = nlohmann::json;

// Deeper nesting and more values (elements and members in all) are refused before anything is built from them.
inline constexpr int kJsonDepthMax = 32;
inline constexpr int kJsonValuesMax = 1 << 18;

// 400 unless `body` is one JSON object within the limits.
Result<Json> ParseObject(const std::string& body);

class Fields {
 public:
  // `path` stands before each name in errors: "messages[0]." The object must outlive this.
  explicit Fields(const Json& object, std::string path = {}) : object_(object), path_(std::move(path)) {}

  // Null: absent.
  const Json* Find(const char* name) const;
  std::optional<bool> Bool(const char* name);
  std::optional<std::string> String(const char* name);
  std::optional<double> Number(const char* name);
  std::optional<int64_t> Integer(const char* name, int64_t min, int64_t max);

  std::string Path(const char* name) const { return path_ + name; }
  void Fail(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  void Fail(const char* name, const std::string& must) { Fail(BadField(Path(name), must)); }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json& object_;
  const std::string path_;
  std::optional<ApiError> error_;
};

// Whether `value` is an integer from `min` to `max`.
bool IsInteger(const Json& value, int64_t min, int64_t max);

// Compact JSON; broken UTF-8 becomes U+FFFD.
std::string Dump(const Json& json);

}  // namespace kvrelay::http
