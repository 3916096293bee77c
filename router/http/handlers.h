// What all handlers of the gateway share.
#pragma once

#include <memory>
#include <string>

#include "kvrelay/v1/generation.grpc.pb.h"
#include "router/http/api_error.h"
#include "router/http/library.h"
#include "router/http/request_context.h"

namespace kvrelay::http {

// Where requests go, and what does not change while the router runs. Thread-safe.
struct Backend {
  std::unique_ptr<v1::GenerationService::Stub> stub;
  std::string model_name;
  std::string fingerprint;
  uint32_t context_length;
  int64_t started;  // seconds since 1970
};

inline constexpr char kJsonType[] = "application/json";

// Puts an error into a response: its status, Retry-After, and its body.
void SetError(const ApiError& error, httplib::Response& response);

// Detokenizes, control tokens included.
Result<std::string> Detokenize(const Backend& backend, const RequestContext& context,
                               const v1::DetokenizeRequest& request);

// GET /v1/models and /v1/models/NAME (`name` empty: the list).
void HandleModels(const Backend& backend, const std::string& name, const httplib::Request& request,
                  httplib::Response& response);
// POST /tokenize {"model", "prompt" or "messages", "return_token_strs"}
void HandleTokenize(const Backend& backend, const httplib::Request& request, httplib::Response& response);
// POST /detokenize {"model", "tokens"}
void HandleDetokenize(const Backend& backend, const httplib::Request& request, httplib::Response& response);

}  // namespace kvrelay::http
