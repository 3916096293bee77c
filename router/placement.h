// Chooses workers for a request: pure functions over a snapshot of the registry.
//
// Workers of one request belong to one set: the router's model file (the registry marks others as not ready) and one
// numerics id. Within a set the least loaded worker wins; ties go to the one used least so far, then to the lower
// address.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "router/worker.h"

namespace kvrelay::router {

// Worker processes that a request has had bad luck with, by instance and epoch (a restarted process is another one).
class AvoidedWorkers {
 public:
  // `lost`: never use it again for this request. Otherwise it is used when there is no other.
  void Add(const Worker& worker, bool lost);
  bool IsLost(const Worker& worker) const { return lost_.contains(Key(worker)); }
  bool IsAvoided(const Worker& worker) const { return IsLost(worker) || avoided_.contains(Key(worker)); }

 private:
  static std::pair<std::string, uint64_t> Key(const Worker& worker) { return {worker.instance(), worker.epoch()}; }
  std::set<std::pair<std::string, uint64_t>> lost_;
  std::set<std::pair<std::string, uint64_t>> avoided_;
};

struct PlacementRequest {
  v1::Execution execution = v1::EXECUTION_UNSPECIFIED;  // as asked for
  bool needs_decode = true;  // false: one token is wanted, a prefill worker alone can give it
  uint64_t tokens = 1;       // prompt + max_tokens: workers of a shorter context are left out
  std::string numerics_id;   // only workers of this id; empty: any one id
};

struct Plan {
  v1::Execution execution = v1::EXECUTION_UNSPECIFIED;  // never unspecified in a result
  std::optional<Worker> prefill;                        // set if and only if the execution is split
  std::optional<Worker> decode;                         // not set when split gives the one token that is wanted
  std::string reason;
};

// UNAVAILABLE if no worker can serve the request now, FAILED_PRECONDITION if workers are there but of another model or
// of numerics that do not fit together; the message names the workers and their problems.
absl::StatusOr<Plan> Place(absl::Span<const Worker> workers, const PlacementRequest& request,
                           const AvoidedWorkers& avoided);

// The best ready worker of a role for the request; nothing if there is none.
std::optional<Worker> PickWorker(absl::Span<const Worker> workers, v1::WorkerRole role, const PlacementRequest& request,
                                 const AvoidedWorkers& avoided);

}  // namespace kvrelay::router
