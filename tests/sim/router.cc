#include "tests/sim/router.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/kv_link.h"
#include "tests/sim/model.h"

namespace kvrelay::sim {
namespace {

// Streams are short here, and so are clients' naps.
constexpr router::FlowLimits kLimits = {.unread_pause = 6, .unread_resume = 2, .unread_timeout = absl::Seconds(2)};
constexpr absl::Duration kBackoffMin = absl::Milliseconds(100);
constexpr absl::Duration kBackoffMax = absl::Seconds(2);

}  // namespace

// ---- Calls to workers ----

class RouterCall::DecodeHandle final : public router::DecodeCall {
 public:
  DecodeHandle(RouterProcess* process, const router::Worker& worker, std::shared_ptr<Call> call,
               std::shared_ptr<Use> use)
      : process_(process), worker_(worker), call_(std::move(call)), use_(std::move(use)) {
    process_->table_.OnCallOpened(worker_, 0);
  }
  ~DecodeHandle() override {
    use_->open = false;
    process_->table_.OnCallClosed(worker_, 0);
    call_->Cancel();
  }
  void Send(wire::DecodeRequest request) override {
    if (request.has_reserve()) {
      use_->handoff_id = request.reserve().handoff_id();
      use_->moved = request.reserve().source() == wire::SOURCE_MOVED;
      use_->computes = !use_->moved && request.reserve().source() != wire::SOURCE_RECEIVED;
    }
    use_->gives = use_->gives || request.has_move_to();
    use_->finish = use_->finish || request.has_finish();
    call_->ToServer([server = server_, request = std::move(request)] {
      if (*server != nullptr) (*server)->OnRequest(request);
    });
  }
  using Server = std::shared_ptr<std::shared_ptr<DecodeProcess::Commands>>;
  const Server& server() const { return server_; }

 private:
  RouterProcess* const process_;
  const router::Worker worker_;
  const std::shared_ptr<Call> call_;
  const std::shared_ptr<Use> use_;
  const Server server_ = std::make_shared<std::shared_ptr<DecodeProcess::Commands>>();
};

class RouterCall::PrefillHandle final : public router::PrefillCall {
 public:
  PrefillHandle(RouterProcess* process, const router::Worker& worker, uint64_t prompt_tokens,
                std::shared_ptr<Call> call, std::shared_ptr<Use> use)
      : process_(process),
        worker_(worker),
        prompt_tokens_(prompt_tokens),
        call_(std::move(call)),
        use_(std::move(use)) {
    process_->table_.OnCallOpened(worker_, prompt_tokens_);
  }
  ~PrefillHandle() override {
    use_->open = false;
    process_->table_.OnCallClosed(worker_, prompt_tokens_);
    call_->Cancel();
  }

 private:
  RouterProcess* const process_;
  const router::Worker worker_;
  const uint64_t prompt_tokens_;
  const std::shared_ptr<Call> call_;
  const std::shared_ptr<Use> use_;
};

// ---- A request ----

RouterCall::RouterCall(RouterProcess* process, std::shared_ptr<Call> call, router::FlowRequest request,
                       std::function<void(v1::GenerateResponse)> respond)
    : process_(process),
      call_(std::move(call)),
      respond_(std::move(respond)),
      seed_(request.spec.seed()),
      tokens_left_(static_cast<int>(request.spec.max_tokens() - request.resumed())) {
  flow_.emplace(std::move(request), router::FlowDeps{.clock = &process_->network_->world(),
                                                     .workers = process_,
                                                     .calls = this,
                                                     .sink = this,
                                                     .admission = &process_->admission_,
                                                     .memory = &process_->memory_,
                                                     .wake =
                                                         [this, process, alive = alive_] {
                                                           process->network_->world().After(
                                                               absl::ZeroDuration(), process, [this, alive] {
                                                                 if (*alive) Event([](auto& flow) { flow.OnWake(); });
                                                               });
                                                         },
                                                     .token_bytes = [](int32_t id, bool) { return TokenBytes(id); },
                                                     .vocabulary_size = kVocabulary,
                                                     .new_handoff_id =
                                                         [process] {
                                                           std::string id(16, '\0');
                                                           id[0] = static_cast<char>(process->node());
                                                           const uint64_t number = ++process->handoffs_;
                                                           const int64_t now = process->network_->world().UnixNanos();
                                                           for (int i = 0; i < 7; ++i) {
                                                             id[1 + i] = static_cast<char>(number >> (8 * i));
                                                             id[8 + i] = static_cast<char>(now >> (8 * i));
                                                           }
                                                           return id;
                                                         },
                                                     .limits = kLimits});
}

RouterCall::~RouterCall() { *alive_ = false; }

void RouterCall::Event(const std::function<void(router::GenerateFlow&)>& event) {
  if (ended_) return;
  event(*flow_);
  process_->situation_changed_(this);
}

Situation RouterCall::situation() const {
  const Use* decode = nullptr;
  const Use* other = nullptr;
  Situation now;
  for (const std::shared_ptr<Use>& use : uses_) {
    if (!use->open) continue;
    if (!use->decode) {
      now.prefill = use->node;
    } else {
      (decode == nullptr ? decode : other) = use.get();
    }
  }
  const bool switched = other != nullptr && decode->finish;
  if (switched) std::swap(decode, other);
  if (decode != nullptr) {
    now.decode = decode->node;
    now.handoff_id = decode->handoff_id;
  }
  if (other != nullptr) {
    now.target = other->node;
    now.handoff_id = other->handoff_id;
  }
  const bool alone = decode != nullptr && decode->computes;
  switch (flow_->state()) {
    case router::FlowState::kQueued:
      now.state = State::kQueued;
      break;
    case router::FlowState::kReserving:
      now.state = alone ? State::kReservingAlone : State::kReserving;
      break;
    case router::FlowState::kPrefilling:
      now.state = decode == nullptr ? State::kPrefillingAlone : State::kPrefilling;
      break;
    case router::FlowState::kOpeningAttempt:
      now.state = State::kOpeningAttempt;
      break;
    case router::FlowState::kDecoding:
      now.state = switched           ? State::kSwitched
                  : other != nullptr ? (decode->gives ? State::kMoving : State::kMoveReserving)
                  : now.prefill != 0 ? State::kHandedOver
                  : alone            ? State::kDecodingAlone
                                     : State::kDecoding;
      break;
    default:
      now.state = State::kFinishing;
  }
  return now;
}

void RouterCall::Start() {
  Event([](router::GenerateFlow& flow) { flow.Start(); });
}
void RouterCall::Tick() {
  Event([](router::GenerateFlow& flow) { flow.OnTick(); });
}
void RouterCall::Cancel() {
  Event([](router::GenerateFlow& flow) { flow.Abort(absl::CancelledError("the client ended the call")); });
}

std::shared_ptr<RouterCall::Use> RouterCall::NewUse(bool decode, int node, const std::shared_ptr<Call>& call) {
  auto use = std::make_shared<Use>();
  use->decode = decode;
  use->node = node;
  use->call = call;
  uses_.push_back(use);
  return use;
}

std::unique_ptr<router::DecodeCall> RouterCall::OpenDecode(router::CallId id, const router::Worker& worker) {
  const int node = NodeOf(worker.address);
  auto call = process_->network_->Open(process_, node);
  auto handle = std::make_unique<DecodeHandle>(process_, worker, call, NewUse(true, node, call));
  call->on_end = [this, alive = alive_, id](const absl::Status& status) {
    if (*alive) Event([&](router::GenerateFlow& flow) { flow.OnDecodeEnd(id, status); });
  };
  call->ToServer([this, alive = alive_, id, weak = std::weak_ptr<Call>(call), server = handle->server()] {
    const auto call = weak.lock();
    *server = static_cast<DecodeProcess*>(call->server())
                  ->Decode(call, [this, alive, id](const wire::DecodeResponse& response) {
                    if (*alive) Event([&](router::GenerateFlow& flow) { flow.OnDecode(id, response); });
                  });
  });
  return handle;
}

std::unique_ptr<router::PrefillCall> RouterCall::OpenPrefill(router::CallId id, const router::Worker& worker,
                                                             const wire::PrefillRequest& request) {
  const int node = NodeOf(worker.address);
  auto call = process_->network_->Open(process_, node);
  auto use = NewUse(false, node, call);
  use->handoff_id = request.handoff().handoff_id();
  auto handle =
      std::make_unique<PrefillHandle>(process_, worker, request.spec().token_ids_size(), call, std::move(use));
  call->on_end = [this, alive = alive_, id](const absl::Status& status) {
    if (*alive) Event([&](router::GenerateFlow& flow) { flow.OnPrefillEnd(id, status); });
  };
  call->ToServer([this, alive = alive_, id, weak = std::weak_ptr<Call>(call), request] {
    const auto call = weak.lock();
    static_cast<PrefillProcess*>(call->server())
        ->Prefill(call, request, [this, alive, id](const wire::PrefillResponse& response) {
          if (*alive) Event([&](router::GenerateFlow& flow) { flow.OnPrefill(id, response); });
        });
  });
  return handle;
}

void RouterCall::Send(v1::GenerateResponse response) {
  if (ended_) process_->observer_->Violation("one end", "a message was sent after the end");
  tokens_left_ -= response.has_token();
  call_->ToClient([respond = respond_, response = std::move(response)] { respond(response); });
}

void RouterCall::End(const absl::Status& status) {
  if (std::exchange(ended_, true)) process_->observer_->Violation("one end", "a flow ended twice");
  process_->network_->world().Trace(process_->name(), absl::StrCat("request ", seed_, " ended: ", status.ToString()));
  call_->End(status);
  process_->SweepSoon();
}

// ---- The process ----

RouterProcess::RouterProcess(Network* network, Observer* observer, const std::string& name, int node,
                             std::vector<Key> workers, std::function<void(RouterCall*)> situation_changed)
    : Process(name, node),
      network_(network),
      observer_(observer),
      situation_changed_(std::move(situation_changed)),
      table_(kFingerprint, absl::Seconds(5), &network->world(), static_cast<uint64_t>(node)) {
  for (const Key& key : workers) {
    table_.Add(key);
    Watch(key, kBackoffMin);
  }
  network_->world().After(kRouterTick, this, [this] { Tick(); });
}

void RouterProcess::Watch(const Key& key, absl::Duration backoff) {
  const auto call = watches_[key] = network_->Open(this, NodeOf(key.second));
  auto next = std::make_shared<absl::Duration>(std::min(backoff * 2, kBackoffMax));
  call->on_end = [this, key, backoff, next](const absl::Status& status) {
    if (!alive()) return;
    table_.OnStreamEnd(key, status);
    network_->world().After(backoff, this, [this, key, next] { Watch(key, *next); });
  };
  call->ToServer([this, key, next, weak = std::weak_ptr<Call>(call)] {
    const auto call = weak.lock();
    static_cast<WorkerProcess*>(call->server())
        ->Watch(call, [this, key, next](const wire::WatchStatusResponse& report) {
          table_.OnReport(key, report);
          *next = kBackoffMin;
        });
  });
}

void RouterProcess::Tick() {
  table_.OnTick();
  for (const auto& request : std::list(requests_)) request->Tick();
  network_->world().After(kRouterTick, this, [this] { Tick(); });
}

void RouterProcess::Generate(const std::shared_ptr<Call>& call, router::FlowRequest request,
                             std::function<void(v1::GenerateResponse)> respond) {
  request.arrival = network_->world().Now();
  auto served = std::make_shared<RouterCall>(this, call, std::move(request), std::move(respond));
  requests_.push_back(served);
  call->on_cancel = [weak = std::weak_ptr<RouterCall>(served)] {
    if (const auto request = weak.lock()) request->Cancel();
  };
  served->Start();
}

void RouterProcess::SweepSoon() {
  network_->world().After(absl::ZeroDuration(), this,
                          [this] { std::erase_if(requests_, [](const auto& request) { return request->ended(); }); });
}

void RouterProcess::Bury() { requests_.clear(); }

}  // namespace kvrelay::sim
