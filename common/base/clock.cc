#include "common/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace kvrelay {
namespace {

class RealClock final : public Clock {
 public:
  absl::Duration Now() const override { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }
  int64_t UnixNanos() const override { return absl::GetCurrentTimeNanos(); }
};

}  // namespace

const Clock* Clock::Real() {
  static const RealClock clock;
  return &clock;
}

}  // namespace kvrelay
