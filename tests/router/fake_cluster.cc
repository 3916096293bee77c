#include "tests/router/fake_cluster.h"

#include <utility>

namespace kvrelay::router {

Worker FakeWorker(v1::WorkerRole role, const std::string& instance) {
  Worker worker;
  worker.role = role;
  worker.address = instance + ":1";
  worker.ready = true;
  wire::WorkerIdentity& identity = *worker.status.mutable_identity();
  identity.set_instance(instance);
  identity.set_epoch(1);
  identity.set_model_fingerprint(kFakeFingerprint);
  identity.set_numerics_id("n1");
  worker.status.set_role(RoleName(role));
  worker.status.set_context_length(kFakeContext);
  return worker;
}

class FakeCluster::DecodeHandle final : public DecodeCall {
 public:
  DecodeHandle(FakeCluster* cluster, CallId id) : cluster_(cluster), id_(id) {}
  ~DecodeHandle() override { cluster_->calls_.at(id_).open = false; }
  void Send(wire::DecodeRequest request) override {
    cluster_->decode_requests.push_back(request);
    cluster_->OnCommand(id_, request);
  }

 private:
  FakeCluster* const cluster_;
  const CallId id_;
};

class FakeCluster::PrefillHandle final : public PrefillCall {
 public:
  PrefillHandle(FakeCluster* cluster, CallId id) : cluster_(cluster), id_(id) {}
  ~PrefillHandle() override { cluster_->calls_.at(id_).open = false; }

 private:
  FakeCluster* const cluster_;
  const CallId id_;
};

bool FakeCluster::Deliver(CallId id) {
  auto& events = calls_.at(id).events;
  if (events.empty()) return false;
  const std::function<void()> event = std::move(events.front());
  events.pop_front();
  event();
  return true;
}

bool FakeCluster::Step() {
  std::vector<CallId> ready;
  for (const auto& [id, call] : calls_) {
    if (!call.events.empty()) ready.push_back(id);
  }
  return !ready.empty() && Deliver(ready[random_() % ready.size()]);
}

bool FakeCluster::StepRole(v1::WorkerRole role) {
  for (const auto& [id, call] : calls_) {
    if (call.role == role && call.open && !call.events.empty()) return Deliver(id);
  }
  return false;
}

void FakeCluster::Kill(const std::string& instance) {
  for (Worker& worker : workers) {
    if (worker.instance() != instance) continue;
    worker.ready = false;
    worker.problem = "killed";
  }
  for (auto& [id, call] : calls_) {
    if (call.instance != instance || call.ended) continue;
    call.events.clear();
    QueueEnd(id, absl::UnavailableError("connection reset"));
  }
}

size_t FakeCluster::open_calls() const {
  size_t open = 0;
  for (const auto& [id, call] : calls_) open += call.open ? 1 : 0;
  return open;
}

std::unique_ptr<DecodeCall> FakeCluster::OpenDecode(CallId id, const Worker& worker) {
  opened.push_back(worker.instance());
  Call& call = calls_[id];
  call.role = v1::WORKER_ROLE_DECODE;
  call.instance = worker.instance();
  return std::make_unique<DecodeHandle>(this, id);
}

std::unique_ptr<PrefillCall> FakeCluster::OpenPrefill(CallId id, const Worker& worker,
                                                      const wire::PrefillRequest& request) {
  opened.push_back(worker.instance());
  prefill_requests.push_back(request);
  Call& call = calls_[id];
  call.role = v1::WORKER_ROLE_PREFILL;
  call.instance = worker.instance();
  Prefill(id, request);
  return std::make_unique<PrefillHandle>(this, id);
}

void FakeCluster::Queue(CallId id, wire::DecodeResponse response) {
  if (faults[calls_.at(id).instance].silent) return;
  calls_.at(id).events.push_back([this, id, response] { flow_->OnDecode(id, response); });
}

void FakeCluster::Queue(CallId id, wire::PrefillResponse response) {
  if (faults[calls_.at(id).instance].silent) return;
  calls_.at(id).events.push_back([this, id, response] { flow_->OnPrefill(id, response); });
}

void FakeCluster::QueueEnd(CallId id, const absl::Status& status) {
  Call& call = calls_.at(id);
  call.ended = true;
  if (call.role == v1::WORKER_ROLE_DECODE) {
    call.events.push_back([this, id, status] { flow_->OnDecodeEnd(id, status); });
  } else {
    call.events.push_back([this, id, status] { flow_->OnPrefillEnd(id, status); });
  }
}

wire::WorkerIdentity FakeCluster::Identity(const std::string& instance) const {
  wire::WorkerIdentity identity = FakeWorker(v1::WORKER_ROLE_DECODE, instance).status.identity();
  if (auto it = faults.find(instance); it != faults.end() && !it->second.other_instance.empty()) {
    identity.set_instance(it->second.other_instance);
  }
  return identity;
}

wire::Selected FakeCluster::Tamper(const std::string& instance, wire::Selected selected) const {
  if (auto it = faults.find(instance); it != faults.end()) {
    selected.set_token_id(selected.token_id() + it->second.wrong_token_by);
    selected.mutable_positions()->set_kv_ready(selected.positions().kv_ready() + it->second.wrong_kv_ready);
    selected.mutable_positions()->set_computed(selected.positions().computed() + it->second.wrong_kv_ready);
  }
  return selected;
}

// ---- Decode workers ----

void FakeCluster::OnCommand(CallId id, const wire::DecodeRequest& request) {
  Call& call = calls_.at(id);
  if (call.ended || call.done) return;
  if (request.has_reserve()) return Reserve(id, request.reserve());
  if (request.has_finish()) {
    call.finish = true;
    return;
  }
  if (request.has_hold() || request.has_resume()) {
    if (std::exchange(call.held, request.has_hold()) && !call.held) NextToken(id);
    return;
  }
  wire::DecodeResponse response;
  if (call.winner != 0) {
    response.mutable_committed()->set_winner(call.winner);
  } else {
    call.attempt = request.attempt().attempt();
    response.mutable_attempt_open()->set_attempt(call.attempt);
  }
  Queue(id, response);
}

void FakeCluster::Reserve(CallId id, const wire::Reserve& reserve) {
  Call& call = calls_.at(id);
  if (!faults[call.instance].refuse.ok()) return QueueEnd(id, faults[call.instance].refuse);
  call.session.emplace(reserve.spec(), reserve.source() != wire::SOURCE_NO_CACHE);
  call.handoff_id = reserve.handoff_id();
  call.received_source = reserve.source() == wire::SOURCE_RECEIVED;
  wire::DecodeResponse response;
  *response.mutable_reserved()->mutable_identity() = Identity(call.instance);
  response.mutable_reserved()->set_kv_address(call.instance + ":2");
  Queue(id, response);
  if (!call.received_source) NextToken(id);
}

void FakeCluster::QueueSelected(CallId id, const wire::Selected& selected) {
  wire::DecodeResponse response;
  *response.mutable_selected() = Tamper(calls_.at(id).instance, selected);
  Queue(id, response);
  if (selected.end() != wire::END_REASON_UNSPECIFIED) {
    Ended(id, selected.end());
  } else {
    NextToken(id);
  }
}

// The next run, when the event before it was delivered.
void FakeCluster::NextToken(CallId id) {
  calls_.at(id).events.push_back([this, id] {
    Call& call = calls_.at(id);
    if (call.ended || !call.open || call.held) return;
    // Finish may come in the middle of a run, whose token is then still told.
    if (call.finish && random_() % 2 == 0) return Ended(id, wire::END_REASON_FINISHED_BY_ROUTER);
    QueueSelected(id, call.session->Select());
  });
}

void FakeCluster::Ended(CallId id, wire::EndReason reason) {
  Call& call = calls_.at(id);
  call.done = true;
  wire::DecodeResponse response;
  response.mutable_ended()->set_reason(reason);
  *response.mutable_ended()->mutable_positions() = call.session->positions();
  response.mutable_ended()->mutable_prefill()->set_seconds(3);
  Queue(id, response);
  QueueEnd(id, absl::OkStatus());
}

bool FakeCluster::Publish(const wire::Handoff& handoff, const wire::Selected& selected) {
  for (auto& [id, call] : calls_) {
    if (call.role != v1::WORKER_ROLE_DECODE || call.handoff_id != handoff.handoff_id()) continue;
    if (!call.open || call.ended || call.attempt != handoff.attempt()) return false;
    if (call.winner == 0) {
      call.winner = handoff.attempt();
      QueueSelected(id, call.session->Receive(selected));
    }
    return true;
  }
  return false;
}

// ---- Prefill workers ----

void FakeCluster::Prefill(CallId id, const wire::PrefillRequest& request) {
  const std::string instance = calls_.at(id).instance;
  const Faults& wrong = faults[instance];
  if (wrong.silent) return;
  if (!wrong.refuse.ok()) return QueueEnd(id, wrong.refuse);
  wire::PrefillResponse response;
  wire::PrefillProgress& progress = *response.mutable_progress();
  *progress.mutable_identity() = Identity(instance);
  progress.set_queued(true);
  Queue(id, response);
  progress.set_queued(false);
  progress.set_computed(static_cast<uint32_t>(request.spec().token_ids_size()) / 2);
  progress.set_beat(1);
  Queue(id, response);
  if (!wrong.before_token.ok()) return QueueEnd(id, wrong.before_token);
  FakeSession session(request.spec(), /*cached=*/true);
  const wire::Selected selected = session.Select();
  response = {};
  *response.mutable_selected() = Tamper(instance, selected);
  Queue(id, response);
  if (!wrong.after_token.ok()) return QueueEnd(id, wrong.after_token);
  if (request.has_handoff()) session.Ship();
  // The commit may reach the decode worker's stream before the router has read this one: nothing is delivered in
  // between.
  ShipAndFinish(id, request, selected, session.positions());
}

void FakeCluster::ShipAndFinish(CallId id, const wire::PrefillRequest& request, const wire::Selected& selected,
                                wire::Positions positions) {
  // A receiver takes KV only from the sender that the router named.
  const bool stranger = !faults[calls_.at(id).instance].other_instance.empty();
  if (request.has_handoff() && (stranger || !Publish(request.handoff(), selected))) {
    return QueueEnd(id, absl::NotFoundError("no reservation has this handoff id"));
  }
  if (faults[calls_.at(id).instance].loses_receipt) return QueueEnd(id, absl::UnavailableError("receipt lost"));
  wire::PrefillResponse response;
  wire::PrefillDone& done = *response.mutable_done();
  *done.mutable_positions() = positions;
  done.mutable_prefill()->set_seconds(2);
  if (request.has_handoff()) {
    done.set_bytes_shipped(100 * static_cast<uint64_t>(request.spec().token_ids_size()));
    done.add_shipments()->set_layer(1);
    done.mutable_shipments(0)->mutable_start()->set_seconds(1);
  }
  Queue(id, response);
  QueueEnd(id, absl::OkStatus());
}

// ---- The client ----

std::vector<uint32_t> FakeSink::Ids() const {
  std::vector<uint32_t> ids;
  for (const auto& response : responses) {
    if (response.has_token()) ids.push_back(response.token().id());
  }
  return ids;
}

std::string FakeSink::Text() const {
  std::string text;
  for (const auto& response : responses) text += response.token().text() + response.finished().text();
  return text;
}

const v1::Started* FakeSink::Started() const {
  return responses.empty() || !responses.front().has_started() ? nullptr : &responses.front().started();
}

const v1::Finished* FakeSink::Finished() const {
  return responses.empty() || !responses.back().has_finished() ? nullptr : &responses.back().finished();
}

std::vector<v1::RunTrace> FakeSink::Runs() const {
  std::vector<v1::RunTrace> runs;
  for (const auto& response : responses) {
    if (response.has_run()) runs.push_back(response.run());
  }
  return runs;
}

}  // namespace kvrelay::router
