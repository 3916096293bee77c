// Tells silence of others from one's own: a process that was suspended hears nothing, and must not take that for the
// death of those it watches.
#pragma once

#include "absl/time/time.h"

namespace kvrelay::router {

// Who watches ticks; what lies between two ticks beyond the usual is a pause of its own. A plain value.
class OwnPauses {
 public:
  // Ticks come a few times per second; a machine under load is late by less than this.
  static constexpr absl::Duration kLongestTick = absl::Seconds(2);

  // The part of the time since the last tick in which this process did not run; usually 0.
  absl::Duration OnTick(absl::Duration now) {
    const absl::Duration gap = now - last_;
    const bool first = last_ == -absl::InfiniteDuration();
    last_ = now;
    return first || gap <= kLongestTick ? absl::ZeroDuration() : gap;
  }

 private:
  absl::Duration last_ = -absl::InfiniteDuration();
};

}  // namespace kvrelay::router
