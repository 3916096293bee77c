// Chooses workers for a request: pure functions over those that the registry names as candidates.
//
// Workers of one request belong to one set: the router's model file (the registry marks others as not ready) and one
// numerics id. Within a set,
//   - the prefill worker is the one that would have the KV ready first: prompt tokens that wait there, and those of the
//     request that it does not hold, at its measured rate;
//   - the decode worker is the least loaded one, or one that holds more of the request and is not much busier;
//   - workers with room for it go before all others;
//   - ties go to the one with fewer sessions, then to the one used least so far, then to the one named first.
// Unless asked for, a request is split if that costs less: a prompt computed on the decode worker saves the handoff,
// but holds up every stream there, and the one that may come next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "router/placement_memory.h"
#include "router/worker.h"

namespace kvrelay::router {

// Worker processes that a request has had bad luck with, by instance and epoch (a restarted process is another one).
class AvoidedWorkers {
 public:
  enum Why {
    kUnlucky,  // used when there is no other
    kFull,     // not used until ForgetFull
    kLost      // never used again
  };
  void Add(const Worker& worker, Why why) { workers_[KeyOf(worker)] = std::max(workers_[KeyOf(worker)], why); }
  void ForgetFull() {
    std::erase_if(workers_, [](const auto& entry) { return entry.second == kFull; });
  }
  size_t CountFull() const {
    return std::count_if(workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second == kFull; });
  }
  // Not to be used now.
  bool IsOut(const Worker& worker) const {
    const auto it = workers_.find(KeyOf(worker));
    return it != workers_.end() && it->second != kUnlucky;
  }
  bool IsAvoided(const Worker& worker) const { return workers_.contains(KeyOf(worker)); }

 private:
  std::map<WorkerKey, Why> workers_;
};

struct PlacementRequest {
  v1::Execution execution = v1::EXECUTION_UNSPECIFIED;  // as asked for
  bool needs_decode = true;                        // false: one token is wanted, a prefill worker alone can give it
  uint64_t tokens = 1;                             // prompt + max_tokens: workers of a shorter context are left out
  uint32_t to_prefill = 0;                         // positions whose KV is needed: prompt and history
  HeldPositions held = {};                         // of these, what workers are likely to hold
  absl::Duration handoff = absl::Milliseconds(5);  // what a handoff adds to the time of a prompt
  std::string numerics_id;                         // only workers of this id; empty: any one id
};

struct Plan {
  v1::Execution execution = v1::EXECUTION_UNSPECIFIED;  // never unspecified in a result
  std::optional<Worker> prefill;                        // set if and only if the execution is split
  std::optional<Worker> decode;                         // not set when split gives the one token that is wanted
  std::string reason;
};

// Whether the worker, if it is ready, can ever take the request.
bool CanTake(const Worker& worker, const PlacementRequest& request, const AvoidedWorkers& avoided);
// Whether it has room for it now, as far as it said last.
bool HasRoom(const Worker& worker, const PlacementRequest& request);

// UNAVAILABLE if no worker can serve the request now, FAILED_PRECONDITION if workers are there but of another model or
// of numerics that do not fit together; the message names the workers and their problems.
absl::StatusOr<Plan> Place(absl::Span<const Worker> workers, const PlacementRequest& request,
                           const AvoidedWorkers& avoided);

// The best ready worker of a role for the request; nothing if there is none.
std::optional<Worker> PickWorker(absl::Span<const Worker> workers, v1::WorkerRole role, const PlacementRequest& request,
                                 const AvoidedWorkers& avoided);

}  // namespace kvrelay::router
