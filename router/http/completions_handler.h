// Answers POST /v1/completions and /v1/chat/completions. A client that goes away ends its generations at once.
#pragma once

#include "router/http/completion_request.h"
#include "router/http/handlers.h"

namespace kvrelay::http {

void HandleCompletion(const Backend& backend, Api api, const httplib::Request& request, httplib::Response& response);

}  // namespace kvrelay::http
