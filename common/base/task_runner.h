// Where work goes that the caller's own thread must not do.
#pragma once

#include <functional>

namespace kvrelay {

// Thread-safe.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  // Runs tasks one at a time, in order, later. They must be short and must not wait.
  virtual void Run(std::function<void()> task) = 0;
};

}  // namespace kvrelay
