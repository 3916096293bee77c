// Strikes the processes of a running cluster, one of a role at a time, and waits until each is back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/e2e/cluster.h"

namespace kvrelay::e2e {

// From the blow until the process serves again, on Clock::Real().
struct FaultSpan {
  std::string kind;  // "kill decode", ...
  absl::Duration begin, end;
};

// What can be done to a process of `role`, "prefill", "decode" or "router": kill (SIGKILL, then restarted), suspend
// (SIGSTOP up to 8 s), drain (SIGTERM, then restarted when its streams have ended), and for workers to their links:
// cut, slow, half-open for up to 20 s; "kv" ones are those between prefill and decode.
std::vector<std::string> FaultsOf(const std::string& role);

// How faults are chosen and for how long they may last.
struct FaultChoice {
  std::function<uint64_t(uint64_t)> random;  // below its argument
  std::function<bool()> over;                // when true, what lasts ends soon
};

// Strikes one of `role`-1 ... `role`-`count` and returns when it is back at work; at most kPatience later. The error of
// a process that does not come back. REQUIRES: the cluster was made with proxies; nobody else strikes this role.
absl::Status Strike(Cluster& cluster, const std::string& role, int count, const FaultChoice& choice, FaultSpan* span);

}  // namespace kvrelay::e2e
