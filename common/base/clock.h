// The only door to time. Everything that waits or measures takes a Clock by constructor, so that tests and the
// simulator can bring their own. Thread-safe.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace kvrelay {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic time since an arbitrary start; never goes back.
  virtual absl::Duration Now() const = 0;
  // Wall-clock nanoseconds since 1970, for labels and epochs only.
  virtual int64_t UnixNanos() const = 0;

  // The machine's clock; lives for ever.
  static const Clock* Real();
};

}  // namespace kvrelay
