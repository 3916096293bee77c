#include "router/generate_call.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/observability/log.h"
#include "common/rpc/status_mapping.h"
#include "router/random_bytes.h"
#include "router/request_validation.h"

namespace kvrelay::router {
namespace {

// A full service is worth another try after about this long.
constexpr absl::Duration kTemporaryRetryDelay = absl::Seconds(1);

absl::Status WithAdvice(const absl::Status& status) {
  const bool temporary = absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
  return temporary && !rpc::RetryDelay(status) ? rpc::WithRetryDelay(status, kTemporaryRetryDelay) : status;
}

// Counts a call on a worker as long as its handle lives.
class Counted {
 public:
  Counted(WorkerRegistry* registry, const Worker& worker, uint64_t prompt_tokens)
      : registry_(registry), worker_(worker), prompt_tokens_(prompt_tokens) {
    registry_->CallOpened(worker_, prompt_tokens_);
  }
  Counted(const Counted&) = delete;
  ~Counted() { registry_->CallClosed(worker_, prompt_tokens_); }

 private:
  WorkerRegistry* const registry_;
  const Worker worker_;
  const uint64_t prompt_tokens_;
};

class CountedDecodeCall final : public DecodeCall {
 public:
  CountedDecodeCall(WorkerRegistry* registry, const Worker& worker, std::unique_ptr<DecodeCall> call)
      : counted_(registry, worker, /*prompt_tokens=*/0), call_(std::move(call)) {}
  void Send(wire::DecodeRequest request) override { call_->Send(std::move(request)); }

 private:
  const Counted counted_;
  const std::unique_ptr<DecodeCall> call_;
};

class CountedPrefillCall final : public PrefillCall {
 public:
  CountedPrefillCall(WorkerRegistry* registry, const Worker& worker, uint64_t prompt_tokens,
                     std::unique_ptr<PrefillCall> call)
      : counted_(registry, worker, prompt_tokens), call_(std::move(call)) {}

 private:
  const Counted counted_;
  const std::unique_ptr<PrefillCall> call_;
};

}  // namespace

// Bring a worker's events into the mailbox under the id of their call.
class GenerateCall::ToDecode final : public DecodeListener {
 public:
  ToDecode(std::shared_ptr<GenerateCall> call, CallId id) : call_(std::move(call)), id_(id) {}
  void OnResponse(wire::DecodeResponse response) override {
    call_->Post([id = id_, response = std::move(response)](GenerateFlow& flow) { flow.OnDecode(id, response); });
  }
  void OnEnd(absl::Status status) override {
    call_->Post([id = id_, status = std::move(status)](GenerateFlow& flow) { flow.OnDecodeEnd(id, status); });
  }

 private:
  const std::shared_ptr<GenerateCall> call_;
  const CallId id_;
};

class GenerateCall::ToPrefill final : public PrefillListener {
 public:
  ToPrefill(std::shared_ptr<GenerateCall> call, CallId id) : call_(std::move(call)), id_(id) {}
  void OnResponse(wire::PrefillResponse response) override {
    call_->Post([id = id_, response = std::move(response)](GenerateFlow& flow) { flow.OnPrefill(id, response); });
  }
  void OnEnd(absl::Status status) override {
    call_->Post([id = id_, status = std::move(status)](GenerateFlow& flow) { flow.OnPrefillEnd(id, status); });
  }

 private:
  const std::shared_ptr<GenerateCall> call_;
  const CallId id_;
};

std::shared_ptr<GenerateCall> GenerateCall::New(const Backend& backend, grpc::CallbackServerContext* context,
                                                Caller caller, std::function<void()> on_end) {
  std::shared_ptr<GenerateCall> call(new GenerateCall(backend, context, std::move(caller), std::move(on_end)));
  call->self_ = call;
  return call;
}

GenerateCall::GenerateCall(const Backend& backend, grpc::CallbackServerContext* context, Caller caller,
                           std::function<void()> on_end)
    : backend_(backend),
      arrival_(backend.clock->Now()),
      on_end_(std::move(on_end)),
      writer_(this, kUnsentMax,
              [context] {
                observability::LogWarning("client_too_slow", {{"messages_waiting", kUnsentMax}});
                context->TryCancel();  // OnCancel does the rest
              }),
      metrics_(backend.metrics, arrival_),
      recent_(backend.recent, caller.client, arrival_),
      caller_(std::move(caller)) {}

void GenerateCall::Prepare(const v1::GenerateRequest& request) {
  const std::string made_id = absl::StrCat("r-", absl::BytesToHexString(RandomBytes(8)));
  absl::StatusOr<FlowRequest> built = ToFlowRequest(request, *backend_.model, RandomSeed(), made_id);
  if (!built.ok()) return Refuse(built.status());
  built->arrival = arrival_;
  mailbox_.Post([self = shared_from_this(), built = *std::move(built)]() mutable {
    if (self->ended_) return;  // cancelled in the meantime
    self->request_id_ = built.request_id;
    const auto tokens = static_cast<uint64_t>(built.spec.prompt_length()) + built.spec.max_tokens();
    if (const absl::Status taken = self->caller_.ticket->TakeTokens(tokens); !taken.ok()) return self->End(taken);
    const ServedModel* model = self->backend_.model;
    self->flow_.emplace(
        std::move(built),
        FlowDeps{.clock = self->backend_.clock,
                 .workers = self->backend_.registry,
                 .calls = self.get(),
                 .sink = self.get(),
                 .admission = self->backend_.admission,
                 .memory = self->backend_.memory,
                 .wake =
                     [weak = std::weak_ptr(self)] {
                       if (auto call = weak.lock()) call->Wake();
                     },
                 .token_bytes = [model](int32_t id, bool control) { return model->TokenBytes(id, control); },
                 .vocabulary_size = model->facts().vocabulary_size,
                 .new_handoff_id = [] { return RandomBytes(16); },
                 .limits = self->backend_.limits});
    self->flow_->Start();
  });
}

void GenerateCall::Refuse(const absl::Status& status) {
  mailbox_.Post([self = shared_from_this(), status] { self->End(status); });
}

void GenerateCall::Wake() {
  Post([](GenerateFlow& flow) { flow.OnWake(); });
}

void GenerateCall::Tick() {
  Post([](GenerateFlow& flow) { flow.OnTick(); });
}

void GenerateCall::Post(std::function<void(GenerateFlow&)> event) {
  mailbox_.Post([self = shared_from_this(), event = std::move(event)] {
    if (self->flow_ && !self->ended_) event(*self->flow_);
  });
}

void GenerateCall::Abort(absl::Status status) {
  mailbox_.Post([self = shared_from_this(), status = std::move(status)] {
    self->flow_ ? self->flow_->Abort(status) : self->End(status);
  });
}

void GenerateCall::Send(v1::GenerateResponse response) {
  metrics_.Sent(response, backend_.clock->Now());
  recent_.Sent(response);
  writer_.Push(std::move(response));
}

void GenerateCall::End(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  metrics_.Ended(status, backend_.clock->Now());
  recent_.Ended(status, backend_.clock->Now());
  observability::LogInfo("request", {{"request_id", request_id_},
                                     {"client", caller_.client},
                                     {"code", absl::StatusCodeToString(status.code())},
                                     {"message", std::string(status.message())},
                                     {"seconds", absl::ToDoubleSeconds(backend_.clock->Now() - arrival_)}});
  // First: a client that has seen its end finds the place and its quota free.
  caller_.ticket.reset();
  std::exchange(on_end_, nullptr)();
  writer_.FinishAfterQueue(rpc::ToGrpc(WithAdvice(status)));
}

std::unique_ptr<DecodeCall> GenerateCall::OpenDecode(CallId id, const Worker& worker) {
  return std::make_unique<CountedDecodeCall>(
      backend_.registry, worker,
      backend_.decode_client->Open(worker, std::make_shared<ToDecode>(shared_from_this(), id)));
}

std::unique_ptr<PrefillCall> GenerateCall::OpenPrefill(CallId id, const Worker& worker,
                                                       const wire::PrefillRequest& request) {
  return std::make_unique<CountedPrefillCall>(
      backend_.registry, worker, request.spec().token_ids_size(),
      backend_.prefill_client->Open(worker, request, std::make_shared<ToPrefill>(shared_from_this(), id)));
}

void GenerateCall::OnCancel() { Abort(absl::CancelledError("the client ended the call")); }

void GenerateCall::OnDone() { const std::shared_ptr<GenerateCall> last = std::move(self_); }

}  // namespace kvrelay::router
