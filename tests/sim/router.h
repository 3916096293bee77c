// A router process of a simulation: GenerateFlow and WorkerTable of production behind simulated calls.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "router/generate_flow.h"
#include "router/worker_table.h"
#include "tests/sim/edges.h"
#include "tests/sim/network.h"
#include "tests/sim/worker.h"

namespace kvrelay::sim {

class RouterProcess;

// One request at a router.
class RouterCall final : public router::WorkerCalls, public router::FlowSink {
 public:
  RouterCall(RouterProcess* process, std::shared_ptr<Call> call, router::FlowRequest request,
             std::function<void(v1::GenerateResponse)> respond);
  ~RouterCall() override;

  void Start();
  void Tick();
  void Cancel();
  bool ended() const { return ended_; }

  // What a call to a worker is used for, as far as it shows in what was sent on it.
  struct Use {
    bool decode = false;
    int node = 0;
    std::string handoff_id;
    bool computes = false;  // the prompt is computed there
    bool moved = false;     // the stream is to come there from another decode worker
    bool gives = false;     // MoveTo was sent
    bool finish = false;
    bool open = true;
    std::weak_ptr<Call> call;
  };
  uint64_t seed() const { return seed_; }
  RouterProcess* process() const { return process_; }
  // Tokens that may still come.
  int tokens_left() const { return tokens_left_; }
  const std::list<std::shared_ptr<Use>>& uses() const { return uses_; }
  // The state for the edge table, and the nodes that serve the request in it.
  Situation situation() const;

  std::unique_ptr<router::DecodeCall> OpenDecode(router::CallId id, const router::Worker& worker) override;
  std::unique_ptr<router::PrefillCall> OpenPrefill(router::CallId id, const router::Worker& worker,
                                                   const wire::PrefillRequest& request) override;
  void Send(v1::GenerateResponse response) override;
  size_t Unread() const override { return call_->Unread(); }
  void End(const absl::Status& status) override;

 private:
  class DecodeHandle;
  class PrefillHandle;
  void Event(const std::function<void(router::GenerateFlow&)>& event);
  std::shared_ptr<Use> NewUse(bool decode, int node, const std::shared_ptr<Call>& call);

  RouterProcess* const process_;
  const std::shared_ptr<Call> call_;
  const std::function<void(v1::GenerateResponse)> respond_;
  const uint64_t seed_;
  int tokens_left_;
  bool ended_ = false;
  std::list<std::shared_ptr<Use>> uses_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for events that come late
  std::optional<router::GenerateFlow> flow_;
};

class RouterProcess final : public Process, public router::WorkerDirectory {
 public:
  using Key = router::WorkerTable::Key;
  // `situation_changed` is told after each event of a request.
  RouterProcess(Network* network, Observer* observer, const std::string& name, int node, std::vector<Key> workers,
                std::function<void(RouterCall*)> situation_changed);

  // The server's end of a Generate call.
  void Generate(const std::shared_ptr<Call>& call, router::FlowRequest request,
                std::function<void(v1::GenerateResponse)> respond);
  // The process is no more.
  void Bury();

  std::vector<router::Worker> Snapshot() const { return table_.Snapshot(); }
  std::vector<router::Worker> Candidates(const router::PlacementRequest& request,
                                         const router::AvoidedWorkers& avoided) override {
    return table_.Candidates(request, avoided);
  }
  bool Lost(const router::Worker& worker) const override { return table_.Lost(worker); }
  bool Draining(const router::Worker& worker) const override { return table_.Draining(worker); }
  void OnOutcome(const router::Worker& worker, const absl::Status& outcome) override {
    table_.OnOutcome(worker, outcome);
  }

  size_t live() const { return requests_.size(); }
  const std::list<std::shared_ptr<RouterCall>>& requests() const { return requests_; }

 private:
  friend class RouterCall;
  void Watch(const Key& key, absl::Duration backoff);
  void Tick();
  void SweepSoon();

  Network* const network_;
  Observer* const observer_;
  const std::function<void(RouterCall*)> situation_changed_;
  router::WorkerTable table_;
  router::AdmissionQueue admission_{{}};
  router::PlacementMemory memory_;
  std::list<std::shared_ptr<RouterCall>> requests_;
  std::map<Key, std::shared_ptr<Call>> watches_;
  uint64_t handoffs_ = 0;
};

}  // namespace kvrelay::sim
