// A router of a scale run: GenerateFlow, WorkerTable, AdmissionQueue and PlacementMemory of production.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "router/generate_flow.h"
#include "router/worker_table.h"
#include "tests/sim/scale_worker.h"

namespace kvrelay::sim {

// How a request went.
struct ScaleOutcome {
  absl::Status status;
  uint64_t tokens = 0;         // prompt + max_tokens
  double decision_us = 0;      // 0: it had to wait for others first
  absl::Duration first_token;  // after arrival
  uint32_t calls = 0;          // to workers
};

class ScaleRouter final : public router::WorkerDirectory {
 public:
  using Workers = absl::flat_hash_map<std::string, ScaleWorker*>;  // by address
  ScaleRouter(World* world, const Workers* workers, uint64_t seed, std::function<void(const ScaleOutcome&)> on_end);

  void Generate(router::FlowRequest request);
  size_t live() const { return requests_.size(); }
  router::WorkerTable& table() { return table_; }

  std::vector<router::Worker> Candidates(const router::PlacementRequest& request,
                                         const router::AvoidedWorkers& avoided) override {
    return table_.Candidates(request, avoided);
  }
  bool Lost(const router::Worker& worker) const override { return table_.Lost(worker); }
  bool Draining(const router::Worker& worker) const override { return table_.Draining(worker); }
  void OnOutcome(const router::Worker& worker, const absl::Status& outcome) override {
    table_.OnOutcome(worker, outcome);
  }

 private:
  class Request;
  template <typename Interface>
  class Handle;
  void Tick();
  std::string NewHandoffId();

  World* const world_;
  const Workers* const workers_;
  const std::function<void(const ScaleOutcome&)> on_end_;
  router::WorkerTable table_;
  router::AdmissionQueue admission_{{}};
  router::PlacementMemory memory_;
  std::list<std::shared_ptr<Request>> requests_;
  uint64_t handoffs_ = 0;
};

}  // namespace kvrelay::sim
