// Many workers and several routers on virtual time, for placement at scale: GenerateFlow, WorkerTable, placement and
// its memory of production, before workers that compute nothing (scale_worker.h).
//
// As in production a router knows its own calls at once, and all else from reports that are up to 500 ms old. Half of
// the workers prefill, half decode. Requests come at random times; nothing but the seed decides what happens, except
// for the times of decisions, which are of the machine.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace kvrelay::sim {

struct ScaleOptions {
  int workers = 10;
  int routers = 1;
  uint64_t requests = 1000;
  uint64_t seed = 1;
  // Uniform: unrelated prompts, and workers that stay. Else prompts share beginnings, some far more often than others
  // (Zipf), load comes in waves that fill the fleet, and workers come and go.
  bool skewed = false;
};

struct ScaleResult {
  // Sorted: what it takes to start a request at its router and to open its first call. Requests that wait for others
  // before it are left out.
  std::vector<double> decision_us;
  // Work assigned from the fifth second on, in positions: that of the busiest worker over the mean. 0 where workers
  // come and go.
  double busiest_prefill = 0, busiest_decode = 0;
  // Share of prompt positions that were found in a cache; and that one cache of all, without limits, would have had.
  double hit_rate = 0, best_hit_rate = 0;
  absl::Duration longest_wait;         // from arrival to the first token
  uint64_t completed = 0, failed = 0;  // requests
  uint64_t starved = 0;                // ended for want of room while a decode and a prefill worker had some
  double calls_per_request = 0;        // to workers: 2 without a refusal or failure
  uint64_t replaced = 0;               // workers
};

ScaleResult RunScale(const ScaleOptions& options);

}  // namespace kvrelay::sim
