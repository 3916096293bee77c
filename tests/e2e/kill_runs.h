// Long streams whose decode worker is killed at one token each: kill -9 of the worker that `Started` names, as soon as
// token k has arrived.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kvrelay::e2e {

struct KillOptions {
  int times = 50;
  uint32_t tokens = 2000;  // of each stream; at least 2
  int at_a_time = 2;       // streams; there is one decode worker more than that
  uint64_t seed = 1;       // of the tokens k
};

struct KillRun {
  uint32_t token = 0;  // k, from 1 to tokens - 1: so many had arrived
  std::string worker;
  bool equal = false;  // to the undisturbed stream, byte for byte
  uint32_t replans = 0;
  absl::Duration gap;   // between token k and the next one
  std::string problem;  // why it ended otherwise than well; empty if it did not

  bool good() const { return equal && replans >= 1 && problem.empty(); }
};

// `on_run` is told of each stream as it ends, one at a time. The number of streams that were not good().
absl::StatusOr<int> RunKills(const KillOptions& options, const std::function<void(const KillRun&)>& on_run);

}  // namespace kvrelay::e2e
