// What the router knows about its workers, and what follows from it: who is ready, lost or draining, and why. Without
// I/O, so that a simulator drives it.
//
// A worker is ready if its status stream lives, it has the configured role and the router's model file, it is not
// draining, the beat of its compute loop has changed within `hung_after`, and its circuit allows a call.
//
// What one decision looks at is bounded. Of a role with few workers it is all of them; of more, a few drawn at random
// and those that are likely to hold the beginning of the request. A draw finds only workers that
//   1. were sound at their last event (stream lives, role, model, not draining): these are listed by role, and
//   2. are ready and can take the request: looked at one by one. If many drawn in a row are not, all are.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "router/circuit.h"
#include "router/own_pauses.h"
#include "router/placement.h"
#include "router/worker.h"

namespace kvrelay::router {

class WorkerTable {
 public:
  using Key = std::pair<v1::WorkerRole, std::string>;  // role and address

  // Of a role with no more workers all are candidates.
  static constexpr size_t kFew = 8;
  // Else so many with room for the request are drawn, as long as `kLooksMax` looks find them. More cost more and, since
  // reports are old, help little: of 100 workers at 0.7 of their capacity the busiest has 1.16 x the mean work with 2,
  // 1.08 x with 4, 1.06 x with 8.
  static constexpr size_t kDrawn = 4;
  static constexpr size_t kLooksMax = 64;

  // `fingerprint`: of the router's model file. `clock` must outlive the table. `seed`: of draws.
  WorkerTable(std::string fingerprint, absl::Duration hung_after, const Clock* clock, uint64_t seed)
      : fingerprint_(std::move(fingerprint)), hung_after_(hung_after), clock_(clock), random_(seed) {}

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
  std::vector<Worker> Candidates(const PlacementRequest& request, const AvoidedWorkers& avoided);
  bool Lost(const Worker& worker) const;
  bool Draining(const Worker& worker) const;
  // To be called a few times per second: takes a pause of this process itself (suspended, or starved of CPU time) out
  // of the silence of its workers, which it could not hear; logs workers that have become ready, or not ready.
  void OnTick();

 private:
  struct Watched {
    Worker worker;  // all but what Judge fills in; `problem`: why it is not sound
    absl::Duration beat_changed;
    absl::Status error = absl::UnavailableError("not tried yet");  // why there is no stream
    bool connected = false;                                        // the stream has given a report
    bool was_ready = false;                                        // for the log
    size_t place = 0;  // among the listed of its role, from 1; 0: not listed
    Circuit circuit;   // of this process
  };
  using Group = std::vector<Watched*>;  // in no order

  struct Role {
    size_t known = 0;
    Group listed;
  };

  // After an event: whether the worker is sound, and if so, listed.
  void Assess(Watched* watched);
  void List(Watched* watched);
  void Unlist(Watched* watched);

  // Sound, its loop alive, and its circuit allows a call.
  bool IsReady(const Watched& watched, absl::Duration now) const;
  // A copy with `ready`, `problem` and `heartbeat_age`.
  Worker Judge(const Watched& watched) const;
  // Appends all workers of the role, judged.
  void AddAll(v1::WorkerRole role, std::vector<Worker>* workers) const;
  // Some of the role's listed workers that are ready and can take the request. Empty only if none can.
  Group Draw(v1::WorkerRole role, const PlacementRequest& request, const AvoidedWorkers& avoided);
  // Those of its listed workers that are likely to hold a part.
  Group Holders(v1::WorkerRole role, const HeldPositions& held) const;
  void LogChanges();
  const Watched* Find(const Worker& worker) const;
  Watched* Find(const Worker& worker);

  const std::string fingerprint_;
  const absl::Duration hung_after_;
  const Clock* const clock_;
  std::map<Key, Watched> watched_;  // a role's workers stand together
  std::map<v1::WorkerRole, Role> roles_;
  absl::flat_hash_map<WorkerKey, Watched*> by_process_;  // those that are listed
  std::mt19937_64 random_;
  OwnPauses pauses_;
};

}  // namespace kvrelay::router
