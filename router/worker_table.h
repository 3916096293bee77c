// What the router knows about its workers, and what follows from it: who is ready, lost or draining, and why. Without
// I/O, so that a simulator drives it.
//
// A worker is ready if its status stream lives, it has the configured role and the router's model file, it is not
// draining, the beat of its compute loop has changed within `hung_after`, and its circuit allows a call.
//
// Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "router/circuit.h"
#include "router/own_pauses.h"
#include "router/worker.h"

namespace kvrelay::router {

class WorkerTable {
 public:
  using Key = std::pair<v1::WorkerRole, std::string>;  // role and address

  // `fingerprint`: of the router's model file. `clock` must outlive the table.
  WorkerTable(std::string fingerprint, absl::Duration hung_after, const Clock* clock)
      : fingerprint_(std::move(fingerprint)), hung_after_(hung_after), clock_(clock) {}

  // Which workers there are. Both do nothing the second time.
  void Add(const Key& key);
  void Remove(const Key& key);

  // The worker's status stream. Unknown keys are ignored.
  void OnReport(const Key& key, wire::WatchStatusResponse report);
  void OnStreamEnd(const Key& key, const absl::Status& status);

  // Calls on a worker. `outcome`: OK or how it failed. RESOURCE_EXHAUSTED, CANCELLED and ABORTED (a transfer broke) say
  // nothing about the worker.
  // `prompt_tokens`: that a prefill call shall compute.
  void OnCallOpened(const Worker& worker, uint64_t prompt_tokens);
  void OnCallClosed(const Worker& worker, uint64_t prompt_tokens);
  void OnOutcome(const Worker& worker, const absl::Status& outcome);

  std::vector<Worker> Snapshot() const;
  // See WorkerDirectory.
  bool Lost(const Worker& worker) const;
  bool Draining(const Worker& worker) const;
  // To be called a few times per second: takes a pause of this process itself (suspended, or starved of CPU time) out
  // of the silence of its workers, which it could not hear; logs workers that have become ready, or not ready.
  void OnTick();

 private:
  struct Watched {
    Worker worker;  // all but what Judge fills in
    absl::Duration beat_changed;
    absl::Status error = absl::UnavailableError("not tried yet");  // why there is no stream
    bool connected = false;                                        // the stream has given a report
    bool was_ready = false;                                        // for the log
    Circuit circuit;                                               // of this process
  };

  // Fills in `ready`, `problem`, `foreign_model` and `heartbeat_age`.
  Worker Judge(const Watched& watched) const;
  void LogChanges();
  const Watched* Find(const Worker& worker) const;
  Watched* Find(const Worker& worker);

  const std::string fingerprint_;
  const absl::Duration hung_after_;
  const Clock* const clock_;
  std::map<Key, Watched> watched_;
  OwnPauses pauses_;
};

}  // namespace kvrelay::router
