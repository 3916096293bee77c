// Bounds the KV that a process has under way: bytes of frames that were given to links and are not yet written, over
// all handoffs. A sender whose frame finds no room waits its turn, holding nothing, so slow receivers cannot fill the
// memory.
//
// Thread-safe. Grants are called without the lock, and may call back.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace kvrelay::kv_wire {

class SendBudget {
 public:
  static constexpr uint64_t kDefaultBytes = 64 << 20;
  explicit SendBudget(uint64_t limit = kDefaultBytes) : limit_(limit) {}

  // True: taken. False: `granted` is called when it is, first come first served. Either way Give pays it back. A frame
  // of any size may be under way alone.
  bool Take(uint64_t bytes, std::function<void()> granted) {
    std::lock_guard lock(mutex_);
    if (waiting_.empty() && Fits(bytes)) {
      taken_ += bytes;
      return true;
    }
    waiting_.emplace_back(bytes, std::move(granted));
    return false;
  }
  void Give(uint64_t bytes) {
    std::vector<std::function<void()>> granted;
    {
      std::lock_guard lock(mutex_);
      taken_ -= bytes;
      for (; !waiting_.empty() && Fits(waiting_.front().first); waiting_.pop_front()) {
        taken_ += waiting_.front().first;
        granted.push_back(std::move(waiting_.front().second));
      }
    }
    for (const auto& grant : granted) grant();
  }

 private:
  bool Fits(uint64_t bytes) const { return taken_ == 0 || taken_ + bytes <= limit_; }

  const uint64_t limit_;
  std::mutex mutex_;  // guards all below
  uint64_t taken_ = 0;
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_;
};

}  // namespace kvrelay::kv_wire
