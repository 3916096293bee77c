// A fixed set of compute threads. The caller takes part as thread 0. Waiting threads spin briefly, then sleep: router,
// prefill and decode worker may share two cores, where long spinning would take the core from the thread that is waited
// for.
//
// One caller at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace kvrelay::model {

class ThreadPool {
 public:
  // `threads` >= 1, the caller included. Every thread runs kernels::ComputeThreadInit. With `cpus`, thread i stays on
  // cpus[i] (the caller from its first Run on), so that its share of the weights stays in that core's caches.
  // REQUIRES: none or at least `threads` of them.
  explicit ThreadPool(int threads, std::vector<int> cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // Runs work(thread) on every thread, thread = 0..threads()-1, and returns when all are done.
  void Run(const std::function<void(int thread)>& work);
  // Inside Run: waits until every thread has come here. All threads must call it equally often.
  void Barrier();
  // Inside Run: the contiguous share of [0, count) of a thread.
  std::pair<int, int> Share(int count, int thread) const {
    return {static_cast<int>(int64_t{count} * thread / threads_),
            static_cast<int>(int64_t{count} * (thread + 1) / threads_)};
  }

 private:
  void Pin(int thread) const;
  void WorkerLoop(int thread);

  const int threads_;
  const std::vector<int> cpus_;
  std::thread::id caller_;  // of the last Run
  const std::function<void(int)>* work_ = nullptr;
  alignas(64) std::atomic<uint32_t> job_ = 0;  // number of the current Run; all ones ends the workers
  alignas(64) std::atomic<uint32_t> arrived_ = 0;
  alignas(64) std::atomic<uint32_t> round_ = 0;  // number of barriers passed
  std::vector<std::thread> workers_;
};

}  // namespace kvrelay::model
