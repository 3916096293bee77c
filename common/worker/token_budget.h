// How many prompt tokens a worker takes in at a time: a bound on its queue, by work rather than by count.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kvrelay::worker {

class TokenBudget {
 public:
  explicit TokenBudget(uint64_t limit) : limit_(limit) {}

  // RESOURCE_EXHAUSTED if too many are taken. One prompt of any size may come alone. Each OK is paid back by one Give.
  absl::Status Take(uint64_t tokens) {
    std::lock_guard lock(mutex_);
    if (taken_ > 0 && taken_ + tokens > limit_) {
      return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", taken_,
                                                       " prompt tokens wait, this prompt has ", tokens,
                                                       ", the limit is ", limit_, "; try again later"));
    }
    taken_ += tokens;
    return absl::OkStatus();
  }
  void Give(uint64_t tokens) {
    std::lock_guard lock(mutex_);
    taken_ -= tokens;
  }

 private:
  const uint64_t limit_;
  std::mutex mutex_;
  uint64_t taken_ = 0;
};

}  // namespace kvrelay::worker
