// Many short requests, half of them cancelled, and what is left of them in the processes: memory and KV blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace kvrelay::e2e {

inline constexpr int kSoakGrowthMib = 16;  // most that a process may grow after the warm-up

struct SoakOptions {
  int finished = 10'000;   // requests that run to their end
  int cancelled = 10'000;  // requests that the client cancels, at a random event
  int streams = 8;         // at a time
  int phases = 10;         // measured after each, when the service is idle
  int warm_up = 2;         // phases after which memory must be flat
  uint64_t seed = 1;
};

// The service between two phases.
struct SoakSample {
  int finished = 0, cancelled = 0;     // so far, as they ended
  int failed = 0;                      // ended otherwise
  std::map<std::string, int> rss_mib;  // by process, without the KV pool
  uint64_t referenced_blocks = 0;      // of all workers
};

struct SoakReport {
  bool requests_ended_well = false;
  bool blocks_flat = false;  // none was left at any sample
  bool memory_flat = false;
  int largest_growth_mib = 0;  // after the warm-up

  bool clean() const { return requests_ended_well && blocks_flat && memory_flat; }
};

// `on_sample` is told before the first request and after each phase. REQUIRES: phases > warm_up >= 1.
absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options, const std::function<void(const SoakSample&)>& on_sample);

}  // namespace kvrelay::e2e
