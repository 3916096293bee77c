// The public gRPC API over HTTP, message for message: protobuf's JSON mapping, with names as in generation.proto and
// every field written, also those of value 0. It is for clients that want all that the service tells (runs, positions,
// timings); the page at / is one.
//
//   POST /kvrelay/v1/generate  body: GenerateRequest. Answer: GenerateResponse messages, one a line (JSON Lines), each
//                              written as it comes. Whatever goes wrong before the first is a status and an error as of
//                              the other paths; after it, a last line {"error": {...}} instead of `finished`.
//   GET  /kvrelay/v1/model     GetModelResponse
//   GET  /kvrelay/v1/status    GetStatusResponse
#pragma once

#include "router/http/handlers.h"

namespace kvrelay::http {

inline constexpr char kJsonLinesType[] = "application/jsonl";

// A GenerateRequest from its JSON; `request_id` where it has no label of its own. 400 for what is no such message,
// unknown fields included.
Result<v1::GenerateRequest> ParseGenerate(const std::string& body, const std::string& request_id);

void HandleGenerate(const Backend& backend, const httplib::Request& request, httplib::Response& response);
void HandleModel(const Backend& backend, const httplib::Request& request, httplib::Response& response);
void HandleStatus(const Backend& backend, const httplib::Request& request, httplib::Response& response);

}  // namespace kvrelay::http
