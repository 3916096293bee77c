// All processes of a simulation, what strikes them, and their return.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/network.h"
#include "tests/sim/observer.h"
#include "tests/sim/router.h"
#include "tests/sim/worker.h"

namespace kvrelay::sim {

inline constexpr int kClientNode = 0;
inline constexpr int kFirstRouter = 1, kRouters = 2;
inline constexpr int kFirstPrefill = 3, kPrefills = 2;
inline constexpr int kFirstDecode = 5, kDecodes = 3;
inline constexpr int kEndNode = kFirstDecode + kDecodes;

inline bool IsRouter(int node) { return node >= kFirstRouter && node < kFirstPrefill; }
inline bool IsPrefill(int node) { return node >= kFirstPrefill && node < kFirstDecode; }
inline bool IsDecode(int node) { return node >= kFirstDecode && node < kEndNode; }

class Cluster {
 public:
  Cluster(World* world, std::function<void(RouterCall*)> situation_changed);
  ~Cluster();

  World& world() { return *world_; }
  Network& network() { return network_; }
  Observer& observer() { return observer_; }
  RouterProcess& router(int node) { return static_cast<RouterProcess&>(*processes_.at(node)); }
  WorkerProcess& worker(int node) { return static_cast<WorkerProcess&>(*processes_.at(node)); }

  // Whether the process may be struck, which may be draining already: one of its role is well besides.
  bool MayStrike(int node) const;
  bool Drains(int node) const { return draining_.contains(node); }
  bool Well(int node) const { return !troubled_.contains(node) && !draining_.contains(node); }
  // Whether nothing is wrong now. `strikes` changes with each trouble that begins.
  bool Calm() const { return troubled_.empty() && draining_.empty() && links_troubled_ == 0; }
  uint64_t strikes() const { return strikes_; }

  // REQUIRES: MayStrike(node); Drain once per process.
  void Kill(int node);
  void Suspend(int node);
  void Hang(int node);
  void Slow(int node);
  void Drain(int node);
  // Links; each heals after a while.
  void Cut(int a, int b);
  void Silence(int a, int b);
  void Lag(int a, int b);
  // A client does not read one of its streams for a while.
  void Doze(const std::shared_ptr<Call>& call);

  // What must not be left when all requests have ended and all is well.
  void CheckNothingLeft();
  // Whether all routers find all workers ready.
  bool AllReady();

 private:
  void Start(int node);
  void Stop(int node, absl::Duration down);
  void WaitForDrain(int node, absl::Duration until);
  void Trouble(int node, const char* what);
  // The trouble ends, unless the process has been replaced meanwhile.
  void Recover(int node, absl::Duration delay, std::function<void()> how);
  void LinkTrouble(int a, int b, const char* what, absl::Duration duration, std::function<void()> end);
  void Heals(int a, int b, const char* what, absl::Duration duration) {
    LinkTrouble(a, b, what, duration, [this, a, b] { network_.Heal(a, b); });
  }
  void After(absl::Duration delay, Task task) { world_->After(delay, nullptr, std::move(task)); }
  bool Is(int node, const Process* process) const { return processes_.at(node) == process && process->alive(); }

  World* const world_;
  Network network_;
  Observer observer_;
  const std::function<void(RouterCall*)> situation_changed_;
  std::map<int, Process*> processes_;
  std::vector<std::unique_ptr<Process>> all_;  // those that are no more, too: late events look for them
  std::set<int> troubled_, draining_;          // nodes
  int links_troubled_ = 0;
  uint64_t strikes_ = 0;
  absl::Duration troubled_at_;  // when trouble other than a drain began or ended last
};

}  // namespace kvrelay::sim
