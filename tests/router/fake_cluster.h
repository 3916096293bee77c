// Workers that work, without gRPC and without threads: they answer a flow's calls with events that the test delivers
// one by one, in any interleaving that keeps the order within each call. Faults are set per worker, or struck between
// two events.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "router/generate_flow.h"
#include "tests/router/fake_model.h"

namespace kvrelay::router {

class FakeClock final : public Clock {
 public:
  absl::Duration Now() const override { return now; }
  int64_t UnixNanos() const override { return absl::ToInt64Nanoseconds(now); }
  absl::Duration now = absl::Seconds(1000);
};

Worker FakeWorker(v1::WorkerRole role, const std::string& instance);

class FakeCluster final : public WorkerDirectory, public WorkerCalls {
 public:
  // What a worker does wrong.
  struct Faults {
    absl::Status refuse;          // ends every call at once with it
    absl::Status after_token;     // ends a prefill after its token with it, instead of shipping
    absl::Status before_token;    // ends a prefill before its token with it
    uint32_t wrong_token_by = 0;  // added to the id of every token
    uint32_t wrong_kv_ready = 0;  // added to kv_ready of every token
    bool silent = false;          // answers nothing
    bool loses_receipt = false;   // a prefill that ships, then fails with UNAVAILABLE instead of telling
    std::string other_instance;   // what it calls itself when it answers
  };

  explicit FakeCluster(uint64_t seed = 1) : random_(seed) {}
  void Add(v1::WorkerRole role, const std::string& instance) { workers.push_back(FakeWorker(role, instance)); }
  void Serve(GenerateFlow* flow) { flow_ = flow; }

  // Delivers one event of a call chosen at random. False if there is none.
  bool Step();
  void RunAll() {
    while (Step()) {
    }
  }
  // Delivers the next event of the open call of this role. False if there is none.
  bool StepRole(v1::WorkerRole role);
  // The process ends: its calls fail, and the directory knows.
  void Kill(const std::string& instance);

  // WorkerDirectory and WorkerCalls.
  std::vector<Worker> Candidates(const PlacementRequest&, const AvoidedWorkers&) override { return workers; }
  bool Lost(const Worker& worker) const override { return lost.contains(worker.instance()); }
  bool Draining(const Worker& worker) const override { return draining.contains(worker.instance()); }
  void OnOutcome(const Worker& worker, const absl::Status& outcome) override {
    outcomes[worker.instance()].push_back(outcome);
  }
  std::unique_ptr<DecodeCall> OpenDecode(CallId id, const Worker& worker) override;
  std::unique_ptr<PrefillCall> OpenPrefill(CallId id, const Worker& worker,
                                           const wire::PrefillRequest& request) override;

  size_t open_calls() const;

  std::vector<Worker> workers;
  std::map<std::string, Faults> faults;
  std::set<std::string> lost;
  std::set<std::string> draining;
  std::map<std::string, std::vector<absl::Status>> outcomes;
  // What the flow did, in order.
  std::vector<wire::DecodeRequest> decode_requests;
  std::vector<wire::PrefillRequest> prefill_requests;
  std::vector<std::string> opened;  // instances

 private:
  struct Call {
    v1::WorkerRole role;
    std::string instance;
    std::deque<std::function<void()>> events;
    bool open = true;    // the flow holds its handle
    bool ended = false;  // OnEnd is queued or delivered
    // Decode only.
    std::optional<FakeSession> session;
    std::string handoff_id;
    uint32_t attempt = 1;
    uint32_t winner = 0;
    bool received_source = false;
    bool finish = false;
    bool held = false;
    bool done = false;
  };
  class DecodeHandle;
  class PrefillHandle;

  void Queue(CallId id, wire::DecodeResponse response);
  void Queue(CallId id, wire::PrefillResponse response);
  void QueueEnd(CallId id, const absl::Status& status);
  bool Deliver(CallId id);
  void OnCommand(CallId id, const wire::DecodeRequest& request);
  void Reserve(CallId id, const wire::Reserve& reserve);
  void QueueSelected(CallId id, const wire::Selected& selected);
  void NextToken(CallId id);
  void Ended(CallId id, wire::EndReason reason);
  void Prefill(CallId id, const wire::PrefillRequest& request);
  void ShipAndFinish(CallId id, const wire::PrefillRequest& request, const wire::Selected& selected,
                     wire::Positions positions);
  // Publishes KV at the decode call of the handoff. False if it is gone.
  bool Publish(const wire::Handoff& handoff, const wire::Selected& selected);
  wire::Selected Tamper(const std::string& instance, wire::Selected selected) const;
  wire::WorkerIdentity Identity(const std::string& instance) const;

  std::mt19937_64 random_;
  GenerateFlow* flow_ = nullptr;
  std::map<CallId, Call> calls_;
};

// Keeps what the client would see.
class FakeSink final : public FlowSink {
 public:
  void Send(v1::GenerateResponse response) override { responses.push_back(std::move(response)); }
  void End(const absl::Status& s) override {
    ++ends;
    status = s;
  }
  size_t Unread() const override { return unread; }

  std::vector<uint32_t> Ids() const;
  std::string Text() const;  // with the text of Finished
  const v1::Started* Started() const;
  const v1::Finished* Finished() const;
  std::vector<v1::RunTrace> Runs() const;

  std::vector<v1::GenerateResponse> responses;
  absl::Status status;
  int ends = 0;
  size_t unread = 0;
};

}  // namespace kvrelay::router
