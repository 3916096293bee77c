// What the router knows about one worker, and the door through which flows see all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kvrelay/v1/generation.pb.h"
#include "kvrelay/worker/v1/worker.pb.h"

namespace kvrelay::router {

namespace wire = ::kvrelay::worker::v1;

// As workers name their own in WatchStatusResponse.role, and as people read it.
inline const char* RoleName(v1::WorkerRole role) { return role == v1::WORKER_ROLE_PREFILL ? "prefill" : "decode"; }

// A copy of the registry's knowledge at one moment. A plain value.
struct Worker {
  v1::WorkerRole role = v1::WORKER_ROLE_UNSPECIFIED;
  std::string address;
  // Connected, of the router's model, its loop alive, not draining.
  bool ready = false;
  std::string problem;               // why it is not ready, in words
  bool foreign_model = false;        // the problem is that it serves another model file
  wire::WatchStatusResponse status;  // last report; empty until first connected
  absl::Duration heartbeat_age;      // since `status.load.beat` last changed; 0 until first connected
  uint32_t calls = 0;                // calls of this router on it now
  uint64_t calls_total = 0;          // calls of this router on it so far
  uint64_t assigned_tokens = 0;      // prompt tokens of this router's prefill calls on it now

  const std::string& instance() const { return status.identity().instance(); }
  uint64_t epoch() const { return status.identity().epoch(); }
  const std::string& numerics_id() const { return status.identity().numerics_id(); }
};

struct PlacementRequest;
class AvoidedWorkers;

// The workers of a service. Implementations are thread-safe.
class WorkerDirectory {
 public:
  virtual ~WorkerDirectory() = default;
  // Those among which to place the request: all, or, of many, as many as one decision should look at.
  virtual std::vector<Worker> Candidates(const PlacementRequest& request, const AvoidedWorkers& avoided) = 0;
  // Whether calls on this worker should be given up: its loop hangs, or another process took its place. An unknown or
  // only disconnected worker is not lost: its calls tell for themselves.
  virtual bool Lost(const Worker& worker) const = 0;
  // Whether the process drains: its streams should go elsewhere.
  virtual bool Draining(const Worker& worker) const = 0;
  // How a call on the worker ended: OK if it did its work, else its failure. Workers that keep failing are left alone.
  virtual void OnOutcome(const Worker& worker, const absl::Status& outcome) = 0;
};

}  // namespace kvrelay::router
