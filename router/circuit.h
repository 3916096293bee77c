// When a worker whose calls keep failing is left alone, and how it comes back: a circuit breaker.
//
//   closed    calls are made. `kFailuresMax` failures with no success between -> open
//   open      no calls for a pause, 1 s at first, twice as long each time, at most 16 s. Its end -> trial
//   trial     one call is let through. Its success -> closed, its failure -> open
//
// A refusal for lack of room is not a failure, and a worker that is not connected needs no circuit: it is not ready.
// A plain value; times are of one clock.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace kvrelay::router {

class Circuit {
 public:
  static constexpr int kFailuresMax = 3;
  static constexpr absl::Duration kPauseMin = absl::Seconds(1);
  static constexpr absl::Duration kPauseMax = absl::Seconds(16);

  void OnSuccess() { *this = Circuit(); }
  void OnFailure(absl::Duration now) {
    trial_ = false;
    if (++failures_ < kFailuresMax) return;
    until_ = now + pause_;
    pause_ = pause_ * 2 < kPauseMax ? pause_ * 2 : kPauseMax;
  }
  // A call is made. In trial no other is let through before its outcome is known.
  void OnCall() { trial_ = failures_ >= kFailuresMax; }

  // Whether a call may be made now.
  bool Allows(absl::Duration now) const { return failures_ < kFailuresMax || (now >= until_ && !trial_); }
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
  bool trial_ = false;  // the call is under way
  absl::Duration until_ = -absl::InfiniteDuration();
  absl::Duration pause_ = kPauseMin;
};

}  // namespace kvrelay::router
