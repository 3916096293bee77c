#include "tests/sim/scale_router.h"

#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

namespace kvrelay::sim {
namespace {

// What this thread has computed so far: what else runs on the machine does not count.
absl::Duration Spent() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace

// An open call, counted as in production.
template <typename Interface>
class ScaleRouter::Handle final : public Interface {
 public:
  Handle(ScaleRouter* router, const router::Worker& worker, uint64_t prompt_tokens, ScaleCallPtr call)
      : router_(router), worker_(worker), prompt_tokens_(prompt_tokens), call_(std::move(call)) {
    router_->table_.OnCallOpened(worker_, prompt_tokens_);
  }
  ~Handle() override {
    router_->table_.OnCallClosed(worker_, prompt_tokens_);
    call_->open = false;
    router_->workers_->at(worker_.address)->Close(call_);
  }
  // Only of decode calls.
  void Send(wire::DecodeRequest request) {
    router_->world_->After(kScaleLatency, nullptr,
                           [call = call_, to = router_->workers_->at(worker_.address), request = std::move(request)] {
                             if (call->open) to->Decode(call, request);
                           });
  }

 private:
  ScaleRouter* const router_;
  const router::Worker worker_;
  const uint64_t prompt_tokens_;
  const ScaleCallPtr call_;
};

class ScaleRouter::Request final : public router::WorkerCalls,
                                   public router::FlowSink,
                                   public std::enable_shared_from_this<Request> {
 public:
  Request(ScaleRouter* router, router::FlowRequest request) : router_(router), arrival_(request.arrival) {
    outcome_.tokens = uint64_t{request.spec.prompt_length()} + request.spec.max_tokens();
    request_.emplace(std::move(request));
  }

  void Start() {
    router::FlowDeps deps = {.clock = router_->world_,
                             .workers = router_,
                             .calls = this,
                             .sink = this,
                             .admission = &router_->admission_,
                             .memory = &router_->memory_,
                             .wake = Later([](router::GenerateFlow& flow) { flow.OnWake(); }),
                             .token_bytes = [](int32_t, bool) { return std::string("x"); },
                             .vocabulary_size = 256,
                             .new_handoff_id = [router = router_] { return router->NewHandoffId(); },
                             .limits = {}};
    flow_.emplace(*std::exchange(request_, std::nullopt), std::move(deps));
    spent_before_ = Spent();
    flow_->Start();
    starting_ = false;
  }
  void Tick() {
    if (!ended_) flow_->OnTick();
  }
  bool ended() const { return ended_; }

  std::unique_ptr<router::DecodeCall> OpenDecode(router::CallId id, const router::Worker& worker) override {
    auto call = NewCall();
    call->on_decode = [this, self = weak_from_this(), id](const wire::DecodeResponse& response) {
      if (const auto alive = self.lock(); alive && !ended_) flow_->OnDecode(id, response);
    };
    call->on_end = [this, self = weak_from_this(), id](const absl::Status& status) {
      if (const auto alive = self.lock(); alive && !ended_) flow_->OnDecodeEnd(id, status);
    };
    return std::make_unique<Handle<router::DecodeCall>>(router_, worker, 0, std::move(call));
  }

  std::unique_ptr<router::PrefillCall> OpenPrefill(router::CallId id, const router::Worker& worker,
                                                   const wire::PrefillRequest& request) override {
    auto call = NewCall();
    call->on_prefill = [this, self = weak_from_this(), id](const wire::PrefillResponse& response) {
      if (const auto alive = self.lock(); alive && !ended_) flow_->OnPrefill(id, response);
    };
    call->on_end = [this, self = weak_from_this(), id](const absl::Status& status) {
      if (const auto alive = self.lock(); alive && !ended_) flow_->OnPrefillEnd(id, status);
    };
    router_->world_->After(kScaleLatency, nullptr, [call, to = router_->workers_->at(worker.address), request] {
      if (call->open) to->Prefill(call, request);
    });
    return std::make_unique<Handle<router::PrefillCall>>(router_, worker, request.spec().token_ids_size(),
                                                         std::move(call));
  }

  void Send(v1::GenerateResponse response) override {
    if (response.has_token() && std::exchange(waits_, false)) {
      outcome_.first_token = router_->world_->Now() - arrival_;
    }
  }
  size_t Unread() const override { return 0; }
  void End(const absl::Status& status) override {
    ended_ = true;
    outcome_.status = status;
    router_->on_end_(outcome_);
  }

 private:
  ScaleCallPtr NewCall() {
    if (outcome_.calls++ == 0 && starting_) outcome_.decision_us = absl::ToDoubleMicroseconds(Spent() - spent_before_);
    return std::make_shared<ScaleCall>();
  }
  std::function<void()> Later(std::function<void(router::GenerateFlow&)> event) {
    return [this, self = weak_from_this(), world = router_->world_, event = std::move(event)] {
      world->After(absl::ZeroDuration(), nullptr, [this, self, event] {
        if (const auto alive = self.lock(); alive && !ended_) event(*flow_);
      });
    };
  }

  ScaleRouter* const router_;
  const absl::Duration arrival_;
  std::optional<router::FlowRequest> request_;  // until Start
  std::optional<router::GenerateFlow> flow_;
  ScaleOutcome outcome_;
  absl::Duration spent_before_;
  bool starting_ = true;
  bool waits_ = true;  // for its first token
  bool ended_ = false;
};

ScaleRouter::ScaleRouter(World* world, const Workers* workers, uint64_t seed,
                         std::function<void(const ScaleOutcome&)> on_end)
    : world_(world),
      workers_(workers),
      on_end_(std::move(on_end)),
      table_(kScaleFingerprint, absl::Seconds(5), world, seed),
      handoffs_(seed << 32) {
  Tick();
}

void ScaleRouter::Tick() {
  table_.OnTick();
  std::erase_if(requests_, [](const auto& request) { return request->ended(); });
  for (const auto& request : requests_) request->Tick();
  world_->After(kRouterTick, nullptr, [this] { Tick(); });
}

std::string ScaleRouter::NewHandoffId() {
  std::string id(16, '\0');
  std::memcpy(id.data(), &++handoffs_, sizeof(handoffs_));
  return id;
}

void ScaleRouter::Generate(router::FlowRequest request) {
  request.arrival = world_->Now();
  requests_.push_back(std::make_shared<Request>(this, std::move(request)));
  requests_.back()->Start();
}

}  // namespace kvrelay::sim
