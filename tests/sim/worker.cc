#include "tests/sim/worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/worker/status_report.h"
#include "tests/sim/kv_link.h"
#include "tests/sim/model.h"

namespace kvrelay::sim {
namespace {

// The events of a worker's call on their way to its owner.
template <typename Event>
class Sink final : public worker::EventSink<Event> {
 public:
  using Respond = std::function<void(Event)>;
  Sink(std::shared_ptr<Call> call, Respond respond, std::function<void(const Event&)> seen = nullptr)
      : call_(std::move(call)), respond_(std::make_shared<Respond>(std::move(respond))), seen_(std::move(seen)) {}

  void Send(Event event) override {
    if (seen_ != nullptr) seen_(event);
    call_->ToClient([respond = respond_, event = std::move(event)] { (*respond)(event); });
  }
  void SendIfIdle(Event event) override {
    if (call_->Unread() == 0) Send(std::move(event));
  }
  void End() override { call_->End(absl::OkStatus()); }
  void Fail(const absl::Status& status) override { call_->Fail(status); }

 private:
  const std::shared_ptr<Call> call_;
  const std::shared_ptr<Respond> respond_;
  const std::function<void(const Event&)> seen_;
};

class Watcher final : public worker::TickListener {
 public:
  Watcher(const worker::WorkerContext* context, std::shared_ptr<Call> call,
          std::function<void(wire::WatchStatusResponse)> report)
      : context_(*context), sink_(std::move(call), std::move(report)) {}
  void OnTick() override { sink_.SendIfIdle(worker::StatusOf(context_)); }

 private:
  const worker::WorkerContext& context_;
  Sink<wire::WatchStatusResponse> sink_;
};

}  // namespace

Ticks::Ticks(World* world, Process* process) : world_(world), process_(process) {
  world_->After(world_->Pick(absl::ZeroDuration(), worker::kHeartbeatInterval), process_, [this] { Tick(); });
}

void Ticks::Tick() {
  std::vector<std::shared_ptr<worker::TickListener>> live;
  std::erase_if(listeners_, [&](const auto& weak) {
    auto listener = weak.lock();
    if (listener != nullptr) live.push_back(std::move(listener));
    return weak.expired();
  });
  for (const auto& listener : live) listener->OnTick();
  world_->After(worker::kHeartbeatInterval, process_, [this] { Tick(); });
}

WorkerProcess::WorkerProcess(Network* network, Observer* observer, const std::string& name, int node, int blocks)
    : Process(name, node),
      network_(network),
      observer_(observer),
      engine_(&network->world(), this, blocks,
              [observer, name](const std::string& what) { observer->Violation("kv", name + ": " + what); }),
      ticks_(&network->world(), this),
      tasks_(&network->world(), this) {
  context_.clock = &network->world();
  context_.engine = &engine_;
  context_.calls = &calls_;
  context_.ticker = &ticks_;
  context_.tasks = &tasks_;
  context_.prompt_tokens = &prompt_tokens_;
  context_.kv_in_flight = &kv_in_flight_;
  context_.queue_timeout = absl::Seconds(30);
  context_.identity.set_instance(name);
  context_.identity.set_epoch(static_cast<uint64_t>(network->world().UnixNanos()));
  context_.identity.set_model_fingerprint(kFingerprint);
  context_.identity.set_numerics_id(kNumerics);
  context_.kernel_id = "sim";
  context_.vocabulary = kVocabulary;
  context_.eos_ids = {kEos};
  calls_.Open();
}

std::string WorkerProcess::address() const { return AddressOf(node()); }

void WorkerProcess::Watch(const std::shared_ptr<Call>& call, std::function<void(wire::WatchStatusResponse)> report) {
  auto watcher = std::make_shared<Watcher>(&context_, call, std::move(report));
  call->on_done = [watcher] {};
  ticks_.Add(watcher);
  watcher->OnTick();
}

PrefillProcess::PrefillProcess(Network* network, Observer* observer, const std::string& name, int node, int blocks)
    : WorkerProcess(network, observer, name, node, blocks) {
  context_.role = "prefill";
}

void PrefillProcess::Prefill(const std::shared_ptr<Call>& call, const wire::PrefillRequest& request,
                             std::function<void(wire::PrefillResponse)> respond) {
  auto sink = std::make_shared<Sink<wire::PrefillResponse>>(call, std::move(respond));
  auto flow = std::make_shared<prefill_worker::PrefillFlow>(&context_, std::move(sink));
  auto transport = std::make_shared<Transport>(network_, observer_, this);
  call->on_cancel = [flow, transport] {
    flow->OnCancel();
    transport->End();
  };
  call->on_done = [flow, transport] {
    transport->End();
    flow->OnDone();
  };
  flow->Start(request, transport.get());
}

DecodeProcess::DecodeProcess(Network* network, Observer* observer, const std::string& name, int node, int blocks)
    : WorkerProcess(network, observer, name, node, blocks) {
  context_.role = "decode";
  context_.kv_address = address();
}

class DecodeProcess::DecodeServer final : public Commands {
 public:
  DecodeServer(DecodeProcess* process, const std::shared_ptr<Call>& call,
               std::function<void(wire::DecodeResponse)> respond)
      : observer_(*process->observer_),
        handoff_id_(std::make_shared<std::string>()),
        transport_(std::make_shared<Transport>(process->network_, process->observer_, process)) {
    auto sink = std::make_shared<Sink<wire::DecodeResponse>>(
        call, std::move(respond), [observer = &observer_, id = handoff_id_](const wire::DecodeResponse& response) {
          if (response.has_attempt_open()) observer->handoffs[*id].open_attempt = response.attempt_open().attempt();
        });
    flow_ = std::make_shared<decode_worker::DecodeFlow>(&process->context_, &process->reservations_, std::move(sink));
    call->on_cancel = [flow = flow_, transport = transport_, observer = &observer_, id = handoff_id_] {
      flow->OnCancel();
      transport->End();
      observer->handoffs[*id].ended = true;
    };
    call->on_done = [flow = flow_, transport = transport_, observer = &observer_, id = handoff_id_] {
      transport->End();
      flow->OnDone();
      observer->handoffs[*id].ended = true;
    };
  }

  void OnRequest(const wire::DecodeRequest& request) override {
    if (failed_) return;
    if (request.has_reserve()) *handoff_id_ = request.reserve().handoff_id();
    failed_ = !flow_->OnRequest(request, transport_.get());
  }

 private:
  Observer& observer_;
  const std::shared_ptr<std::string> handoff_id_;
  const std::shared_ptr<Transport> transport_;
  std::shared_ptr<decode_worker::DecodeFlow> flow_;
  bool failed_ = false;
};

std::shared_ptr<DecodeProcess::Commands> DecodeProcess::Decode(const std::shared_ptr<Call>& call,
                                                               std::function<void(wire::DecodeResponse)> respond) {
  return std::make_shared<DecodeServer>(this, call, std::move(respond));
}

class DecodeProcess::ReceiveServer final : public Messages,
                                           public decode_worker::KvStream,
                                           public std::enable_shared_from_this<ReceiveServer> {
 public:
  ReceiveServer(DecodeProcess* process, const std::shared_ptr<Call>& call,
                std::shared_ptr<wire::ReceiveKvResponse> receipt)
      : observer_(*process->observer_), flow_(&process->reservations_), call_(call), receipt_(std::move(receipt)) {}

  void Start() {
    const auto call = call_.lock();
    call->on_cancel = [self = shared_from_this()] { self->End(absl::CancelledError("the sender has ended")); };
    call->on_done = [self = shared_from_this()] {};  // kept until then
  }

  void OnMessage(const wire::ReceiveKvRequest& message) override {
    if (ended_) return;
    if (message.has_header()) {
      handoff_id_ = message.header().handoff_id();
      attempt_ = message.header().attempt();
    }
    const Observer::Handoff before = observer_.handoffs[handoff_id_];
    const absl::Status status = flow_.OnMessage(shared_from_this(), message, receipt_.get());
    Observe(before, message, status);
    if (!status.ok() || message.has_commit()) End(status);
  }

  void End(const absl::Status& status) override {
    if (std::exchange(ended_, true)) return;
    if (const auto call = call_.lock()) call->End(status);
  }

 private:
  // Invariants of the handoff, as seen from outside.
  void Observe(const Observer::Handoff& before, const wire::ReceiveKvRequest& message, const absl::Status& status) {
    if (status.ok() && message.has_frame()) {
      if (before.ended) observer_.Violation("fence", "a frame was taken after the reservation's owner had ended");
      if (before.published == 0 && attempt_ < before.open_attempt)
        observer_.Violation(
            "fence", absl::StrCat("a frame of attempt ", attempt_, " was taken in attempt ", before.open_attempt));
    }
    if (status.ok() && message.has_commit() && !receipt_->duplicate() &&
        ++observer_.handoffs[handoff_id_].published > 1)
      observer_.Violation("first commit wins", "one reservation published twice");
    const bool refused = absl::IsInternal(status) || absl::IsDataLoss(status) || absl::IsInvalidArgument(status) ||
                         absl::IsFailedPrecondition(status);
    if (refused && !observer_.damaged.contains(handoff_id_))
      observer_.Violation("sound handoff refused", status.ToString());
  }

  Observer& observer_;
  decode_worker::ReceiveFlow flow_;
  const std::weak_ptr<Call> call_;
  const std::shared_ptr<wire::ReceiveKvResponse> receipt_;
  std::string handoff_id_;
  uint32_t attempt_ = 0;
  bool ended_ = false;
};

std::shared_ptr<DecodeProcess::Messages> DecodeProcess::ReceiveKv(const std::shared_ptr<Call>& call,
                                                                  std::shared_ptr<wire::ReceiveKvResponse> receipt) {
  auto server = std::make_shared<ReceiveServer>(this, call, std::move(receipt));
  server->Start();
  return server;
}

}  // namespace kvrelay::sim
