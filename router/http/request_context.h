// What an HTTP request says beside its body: who asks, under which label, and whether the asker is still there.
//
// Pure but for `alive`; thread-safe.
#pragma once

#include <functional>
#include <string>

#include "router/http/generations.h"
#include "router/http/library.h"

namespace kvrelay::http {

inline constexpr size_t kRequestIdBytesMax = 100;

// The label of a request: of what its client sent, the visible ASCII characters up to kRequestIdBytesMax, or a new one
// if nothing is left.
std::string RequestId(const std::string& sent);

// Called by the server ahead of all handlers: gives the request its label, and a way to see that the client has gone.
void Prepare(httplib::Request& request, std::function<bool()> alive);

struct RequestContext {
  std::string request_id;
  Metadata metadata;  // for the service: authorization, traceparent, and the peer
  std::function<bool()> alive;
};

// REQUIRES: the request was prepared.
RequestContext ContextOf(const httplib::Request& request);

// The traceparent of a request (W3C Trace Context); empty if it has none or a malformed one.
std::string TraceParent(const httplib::Request& request);

}  // namespace kvrelay::http
