// Which calls a worker takes, and how many it has: closed while it starts, open, then draining.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kvrelay::worker {

class LiveCalls {
 public:
  // From now on calls are admitted. What the opener wrote before is visible to every admitted call.
  void Open();
  // From now on none is.
  void Drain();
  bool draining() const;

  // Takes a call in; UNAVAILABLE while closed or draining. Each OK is paid back by one Leave.
  absl::Status Enter();
  void Leave();
  // As Enter, for calls that watch: not counted, and admitted while draining.
  absl::Status CheckOpen() const;

  // Waits up to `grace` until no call is left; whether that is so.
  bool WaitUntilIdle(absl::Duration grace);

 private:
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  bool open_ = false;
  bool draining_ = false;
  int live_ = 0;
};

}  // namespace kvrelay::worker
