#include "common/model/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include "common/base/check.h"
#include "common/kernels/kernels.h"

namespace kvrelay::model {
namespace {

constexpr uint32_t kStop = ~0u;
// About 20 us on a 3 GHz core: longer than the difference between the shares of one phase, shorter than a time slice.
constexpr int kSpins = 1000;

// Returns when `value` is no longer `old`.
void AwaitChange(std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads, std::vector<int> cpus) : threads_(threads), cpus_(std::move(cpus)) {
  KV_CHECK(cpus_.empty() || cpus_.size() >= static_cast<size_t>(threads), "a CPU for each thread");
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { WorkerLoop(t); });
}

ThreadPool::~ThreadPool() {
  job_.store(kStop, std::memory_order_release);
  job_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Pin(int thread) const {
  if (cpus_.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus_[thread], &set);
  // A CPU that was taken away meanwhile is no reason to stop: the thread then runs where the system puts it.
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void ThreadPool::WorkerLoop(int thread) {
  kernels::ComputeThreadInit();
  Pin(thread);
  uint32_t done = 0;
  while (true) {
    AwaitChange(job_, done);
    const uint32_t job = job_.load(std::memory_order_acquire);
    if (job == kStop) return;
    done = job;
    (*work_)(thread);
    Barrier();
  }
}

void ThreadPool::Run(const std::function<void(int)>& work) {
  kernels::ComputeThreadInit();
  if (caller_ != std::this_thread::get_id()) {  // once, not in every step
    caller_ = std::this_thread::get_id();
    Pin(0);
  }
  work_ = &work;
  uint32_t next = job_.load(std::memory_order_relaxed) + 1;
  if (next == kStop) next = 1;
  job_.store(next, std::memory_order_release);
  if (threads_ > 1) job_.notify_all();
  work(0);
  Barrier();
}

void ThreadPool::Barrier() {
  if (threads_ == 1) return;
  const uint32_t round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(threads_)) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    round_.notify_all();
  } else {
    AwaitChange(round_, round);
  }
}

}  // namespace kvrelay::model
