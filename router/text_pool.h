// A few threads for work on text, which may cost milliseconds and must not hold up RPC threads.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvrelay::router {

class TextPool {
 public:
  // Up to `queue_max` jobs wait.
  TextPool(int threads, size_t queue_max);
  // Runs what waits, then ends.
  ~TextPool();

  // False, and nothing happens, if the queue is full.
  bool Submit(std::function<void()> job);

 private:
  void Run();

  const size_t queue_max_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvrelay::router
