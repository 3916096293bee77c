// What a server program does with its surroundings: signals, open files and the port file.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace kvrelay::rpc {

// SIGTERM and SIGINT. Before Block they end the process at once; after it the first one is what Wait returns, and from
// then on a further one ends the process at once with 128 + its number.
//
// One object per process, used by the main thread.
class StopSignals {
 public:
  StopSignals();
  // Call before any thread is started that outlives it: threads inherit the blocked signals.
  void Block();
  // Waits for the first signal and returns its number. REQUIRES: Block was called.
  int Wait();
};

// Lets this process open as many files as the system allows: connections are files, and gRPC 1.51 stops accepting for
// good when they run out.
void RaiseFileLimit();

// Writes `address` and a newline to `path`, complete or not at all.
absl::Status WritePortFile(const std::string& path, const std::string& address);

}  // namespace kvrelay::rpc
