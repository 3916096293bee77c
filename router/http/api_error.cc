#include "router/http/api_error.h"

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/rpc/status_mapping.h"

namespace kvrelay::http {
namespace {

// Where the names of kvrelay.v1 differ. A message of the service begins with the field's name.
struct FieldName {
  absl::string_view grpc, http;
};
constexpr FieldName kFields[] = {
    {"sampling.temperature", "temperature"},
    {"sampling.top_k", "top_k"},
    {"sampling.top_p", "top_p"},
    {"sampling.min_p", "min_p"},
    {"sampling.seed", "seed"},
    {"sampling.repetition_penalty", "repetition_penalty"},
    {"sampling.presence_penalty", "presence_penalty"},
    {"sampling.frequency_penalty", "frequency_penalty"},
    {"sampling.logit_bias", "logit_bias"},
    {"sampling.allowed_token_ids", "allowed_token_ids"},
    {"json_schema", "response_format"},
    {"regex", "structured_outputs"},
    {"lark_grammar", "structured_outputs"},
    {"chat.messages", "messages"},
    {"chat", "messages"},
    {"token_ids.ids", "prompt"},
    {"text", "prompt"},
    {"ids", "tokens"},
    {"the prompt", "prompt"},
    {"prompt and max_tokens", "max_tokens"},
    {"max_tokens", "max_tokens"},
    {"min_tokens", "min_tokens"},
    {"stop_token_ids", "stop_token_ids"},
    {"stop", "stop"},
    {"logprobs", "logprobs"},
    {"priority", "priority"},
    {"cache_salt", "cache_salt"},
};

int HttpStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string TypeOf(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

// The field that a message speaks of first, exchanged for its name here.
void NameField(ApiError& error) {
  for (const FieldName& field : kFields) {
    absl::string_view rest = error.message;
    if (!absl::ConsumePrefix(&rest, field.grpc)) continue;
    if (!absl::StartsWith(rest, " ") && !absl::StartsWith(rest, "[") && !absl::StartsWith(rest, ".")) continue;
    error.param = std::string(field.http);
    if (!absl::StrContains(field.grpc, " ")) error.message = absl::StrCat(field.http, rest);
    return;
  }
}

nlohmann::json OrNull(const std::string& text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); }

}  // namespace

std::string ApiError::Json() const {
  nlohmann::json body;
  body["error"] = {{"message", message},
                   {"type", type.empty() ? TypeOf(status) : type},
                   {"param", OrNull(param)},
                   {"code", OrNull(code)}};
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ApiError BadField(const std::string& param, const std::string& must) {
  return {.status = 400, .message = absl::StrCat(param, " must be ", must), .param = param};
}

ApiError FromStatus(const absl::Status& status, FieldNames names) {
  ApiError error{.status = HttpStatus(status.code()), .message = std::string(status.message())};
  if (error.status == 400 && names == FieldNames::kOpenAi) NameField(error);
  if (error.status == 401) error.code = "invalid_api_key";
  if (error.status == 404) error.param = "model", error.code = "model_not_found";
  if (error.status == 429) error.code = "rate_limit_exceeded";
  if (absl::StrContains(status.message(), "the model's context of")) error.code = "context_length_exceeded";
  if (error.status == 429 || error.status == 503) {
    const absl::Duration delay = rpc::RetryDelay(status).value_or(absl::Seconds(1));
    error.retry_after_s =
        static_cast<int>(std::clamp<int64_t>(absl::ToInt64Seconds(absl::Ceil(delay, absl::Seconds(1))), 1, 3600));
  }
  return error;
}

}  // namespace kvrelay::http
