// What HTTP clients are told when something fails: a status code and a body in the shape of OpenAI's API,
//   {"error": {"message": "...", "type": "invalid_request_error", "param": "temperature", "code": null}}
//
// Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"

namespace kvrelay::http {

struct ApiError {
  int status;  // of HTTP
  std::string message;
  std::string type = {};   // as OpenAI names kinds of errors; empty: that of the status
  std::string param = {};  // the field at fault; empty: null
  std::string code = {};   // a finer name; empty: null
  std::optional<int> retry_after_s = {};

  std::string Json() const;
};

template <typename T>
using Result = std::variant<T, ApiError>;

// 400: the field `param` is not as it must be. "temperature must be a number"
ApiError BadField(const std::string& param, const std::string& must);

// What fields are called in errors: as OpenAI calls them, or as kvrelay.v1 does.
enum class FieldNames { kOpenAi, kGrpc };

// From the status of a call on the service, whose messages name fields of kvrelay.v1. REQUIRES: not OK.
ApiError FromStatus(const absl::Status& status, FieldNames names = FieldNames::kOpenAi);

}  // namespace kvrelay::http
