// Limits of time for HTTP connections; the defaults are those of production.
#pragma once

#include "absl/time/time.h"

namespace kvrelay::http {

struct ConnectionTimes {
  absl::Duration idle = absl::Seconds(60);     // between requests
  absl::Duration request = absl::Seconds(30);  // from the first byte of a request to its last
  absl::Duration write = absl::Seconds(30);    // without the client taking a single byte
};

}  // namespace kvrelay::http
