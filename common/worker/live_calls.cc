#include "common/worker/live_calls.h"

#include "common/base/check.h"

namespace kvrelay::worker {

void LiveCalls::Open() {
  std::lock_guard lock(mutex_);
  open_ = true;
}

void LiveCalls::Drain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

bool LiveCalls::draining() const {
  std::lock_guard lock(mutex_);
  return draining_;
}

absl::Status LiveCalls::CheckOpen() const {
  std::lock_guard lock(mutex_);
  return open_ ? absl::OkStatus() : absl::UnavailableError("the worker is starting; try again");
}

absl::Status LiveCalls::Enter() {
  std::lock_guard lock(mutex_);
  if (!open_) return absl::UnavailableError("the worker is starting; try again");
  if (draining_) return absl::UnavailableError("the worker is draining; use another");
  ++live_;
  return absl::OkStatus();
}

void LiveCalls::Leave() {
  std::lock_guard lock(mutex_);
  KV_CHECK(live_ > 0, "only admitted calls leave");
  if (--live_ == 0) idle_.notify_all();
}

bool LiveCalls::WaitUntilIdle(absl::Duration grace) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, absl::ToChronoMilliseconds(grace), [this] { return live_ == 0; });
}

}  // namespace kvrelay::worker
