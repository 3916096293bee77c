// Runs events one at a time, in order, on the threads that bring them: whoever finds the mailbox idle works it off,
// others only leave their event. So no thread waits for another's work, and an event that an event brings about comes
// after it, never inside.
//
// Thread-safe. Must outlive every Post.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace kvrelay::router {

class Mailbox {
 public:
  void Post(std::function<void()> event) {
    std::unique_lock lock(mutex_);
    events_.push_back(std::move(event));
    if (running_) return;
    running_ = true;
    while (!events_.empty()) {
      std::function<void()> next = std::move(events_.front());
      events_.pop_front();
      lock.unlock();
      next();
      next = nullptr;  // what it holds may be destroyed here, without the lock
      lock.lock();
    }
    running_ = false;
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> events_;
  bool running_ = false;
};

}  // namespace kvrelay::router
