// The page that the router serves at /: one HTML document with its style and script inside. Made by build.mjs.
#pragma once

#include <cstddef>

namespace kvrelay::web {

extern const char kPage[];  // UTF-8, ends with a zero that kPageBytes does not count
extern const size_t kPageBytes;
// Value of the Content-Security-Policy that lets exactly this document's style and script in.
extern const char kPageContentSecurityPolicy[];

}  // namespace kvrelay::web
