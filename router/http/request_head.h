// What the head of an HTTP request must be before the HTTP library sees it: the library reads heads without an end,
// bodies of unstated length, and ranges of answers. So a connection collects the head within limits and lets it through
// here first.
//
// Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "router/http/api_error.h"

namespace kvrelay::http {

inline constexpr size_t kHeadBytesMax = 16 << 10;
inline constexpr size_t kLineBytesMax = 8000;  // below the library's own limit
inline constexpr size_t kHeadersMax = 64;
inline constexpr size_t kBodyBytesMax = 4 << 20;

struct RequestHead {
  std::string bytes = {};       // for the library: the head without what the connection has dealt with
  size_t body_bytes = 0;        // that follow it
  bool is_post = false;         // the methods are GET, HEAD, OPTIONS and POST
  bool wants_continue = false;  // the client sends the body only when it is told to go on
};

// `raw` is everything up to the first empty line, included. Bodies come with POST alone, as application/json, not
// encoded, and with a Content-Length of up to kBodyBytesMax.
Result<RequestHead> CheckHead(std::string_view raw);

}  // namespace kvrelay::http
