// Aims faults at edges: waits until a request is in the wanted state, and strikes what serves it there.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/client.h"
#include "tests/sim/cluster.h"
#include "tests/sim/edges.h"

namespace kvrelay::sim {

class Faults {
 public:
  // Counts what was struck in `counts`.
  Faults(World* world, EdgeCounts* counts) : world_(world), counts_(*counts) {}
  void Serve(Cluster* cluster, Client* client) {
    cluster_ = cluster;
    client_ = client;
  }

  // One more fault, of this edge, from `delay` on.
  void Aim(const Edge& edge, absl::Duration delay);
  // Told after each event of a request.
  void OnSituation(RouterCall* request);

 private:
  struct Aimed {
    Edge edge;
    absl::Duration from;
    bool due = false;  // about to strike
    bool struck = false;
    absl::Duration prepared = -absl::InfiniteDuration();  // when the way to a rare state was paved
  };

  void StrikeSoon(size_t index, RouterCall* request);
  // Some states are reached through another fault only.
  void Prepare(Aimed* aimed, RouterCall* request, const Situation& now);
  void PrepareSoon(Kind kind, RouterCall* request, State state);
  bool Strike(Kind kind, RouterCall* request, const Situation& now);
  bool StrikeProcess(int node, void (Cluster::*how)(int));
  bool StrikeLink(int a, int b, void (Cluster::*how)(int, int));
  bool DamageFrame(const Situation& now, FrameFault fault);
  // The request, if it still lives.
  RouterCall* Find(int router, uint64_t seed) const;

  World* const world_;
  EdgeCounts& counts_;
  Cluster* cluster_ = nullptr;
  Client* client_ = nullptr;
  std::vector<Aimed> aimed_;
};

}  // namespace kvrelay::sim
