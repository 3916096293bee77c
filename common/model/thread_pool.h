// A fixed set of compute threads that meet at barriers. The caller takes part as thread 0. Workers spin briefly for the next
// piece of work, then sleep: router, prefill and decode may share two cores.
//
// One caller at a time.
#pragma once

#include <functional>
#include <memory>

namespace kvrelay::model {

class ThreadPool {
 public:
  // `threads` >= 1, the caller included. Every thread runs kernels::ComputeThreadInit.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const;
  // Runs work(thread) on every thread, thread = 0..threads()-1, and returns when all are done.
  void Run(const std::function<void(int thread)>& work);
  // As Run, over [0, count): each thread takes one contiguous share, work(begin, end, thread).
  void For(int count, const std::function<void(int begin, int end, int thread)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvrelay::model
