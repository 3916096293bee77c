#include "router/generation_service.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/duration.h"
#include "common/rpc/status_mapping.h"
#include "common/text/tokenizer.h"
#include "kvrelay/v1/generation.grpc.pb.h"
#include "router/client_identity.h"
#include "router/request_validation.h"
#include "router/text_pool.h"

namespace kvrelay::router {
namespace {

// How often flows look at the clock; small against their time limits.
constexpr std::chrono::milliseconds kTick{250};

absl::Status PoolFull() {
  return rpc::WithRetryDelay(absl::ResourceExhaustedError("too much text waits to be tokenized; try again later"),
                             absl::Seconds(1));
}

// The requests that are in the router now.
class ActiveCalls {
 public:
  explicit ActiveCalls(uint32_t max) : max_(max), ticker_([this] { Tick(); }) {}
  ~ActiveCalls() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    ticker_.join();
  }

  // A number for the request, or nothing if there are too many.
  std::optional<uint64_t> Enter() {
    std::lock_guard lock(mutex_);
    if (calls_.size() >= max_) return std::nullopt;
    calls_.emplace(++last_, std::weak_ptr<GenerateCall>());
    return last_;
  }
  void Set(uint64_t number, std::weak_ptr<GenerateCall> call) {
    std::lock_guard lock(mutex_);
    if (auto it = calls_.find(number); it != calls_.end()) it->second = std::move(call);
  }
  void Leave(uint64_t number) {
    std::lock_guard lock(mutex_);
    calls_.erase(number);
  }
  uint32_t count() const {
    std::lock_guard lock(mutex_);
    return static_cast<uint32_t>(calls_.size());
  }
  uint32_t max() const { return max_; }

 private:
  void Tick() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kTick, [this] { return stop_; })) {
      std::vector<std::weak_ptr<GenerateCall>> calls;
      for (const auto& [number, call] : calls_) calls.push_back(call);
      lock.unlock();
      for (const auto& weak : calls) {
        if (auto call = weak.lock()) call->Tick();
      }
      lock.lock();
    }
  }

  const uint32_t max_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  uint64_t last_ = 0;
  std::map<uint64_t, std::weak_ptr<GenerateCall>> calls_;
  std::thread ticker_;
};

v1::WorkerStatus ToProto(const Worker& worker) {
  v1::WorkerStatus proto;
  proto.set_role(worker.role);
  proto.set_address(worker.address);
  proto.set_ready(worker.ready);
  proto.set_problem(worker.problem);
  const wire::WorkerIdentity& identity = worker.status.identity();
  proto.set_instance(identity.instance());
  proto.set_epoch(identity.epoch());
  proto.set_version(identity.version());
  proto.set_model_fingerprint(identity.model_fingerprint());
  proto.set_numerics_id(identity.numerics_id());
  proto.set_kernel_id(worker.status.kernel_id());
  const wire::Load& load = worker.status.load();
  proto.set_kv_blocks_total(load.kv_blocks_total());
  proto.set_kv_blocks_referenced(load.kv_blocks_referenced());
  proto.set_kv_blocks_cached(load.kv_blocks_cached());
  proto.set_prefix_cache_queries(load.prefix_cache_queries());
  proto.set_prefix_cache_hits(load.prefix_cache_hits());
  proto.set_active_sessions(load.active_sessions());
  proto.set_queued_sessions(load.queued_sessions());
  proto.set_steps(load.steps());
  *proto.mutable_heartbeat_age() = rpc::ToProto(worker.heartbeat_age);
  return proto;
}

class Service final : public GenerationService, public v1::GenerationService::CallbackService {
 public:
  Service(const Backend& backend, const ServiceOptions& options)
      : backend_(backend),
        options_(options),
        quotas_(options.quotas),
        active_(options.max_active),
        pool_(options.text_threads, /*queue_max=*/options.max_active) {}

  grpc::Service* service() override { return this; }
  void Drain() override { draining_ = true; }
  uint32_t active() const override { return active_.count(); }

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* context,
                                                           const v1::GenerateRequest* request) override {
    absl::StatusOr<Admitted> admitted = Admit(*context);
    const auto number = admitted.ok() ? std::optional(admitted->number) : std::nullopt;
    Caller caller = admitted.ok() ? std::move(admitted->caller) : Caller{ClientAddress(*context), nullptr};
    auto call = GenerateCall::New(backend_, context, std::move(caller), [this, number] {
      if (number) active_.Leave(*number);
    });
    GenerateCall* const reactor = call.get();
    if (!number) {
      call->Refuse(admitted.status());
    } else {
      active_.Set(*number, call);
      // The request is copied: a cancelled call may end, and its request with it, while the job still waits.
      const bool taken = pool_.Submit([call, request = *request] { call->Prepare(request); });
      if (!taken) call->Refuse(PoolFull());
    }
    return reactor;
  }

  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override {
    return OnPool(context, [this, request, response]() -> absl::Status {
      auto ids = TokenizePrompt(*request, *backend_.model);
      if (!ids.ok()) return ids.status();
      for (const int32_t id : *ids) {
        response->add_ids(static_cast<uint32_t>(id));
        response->add_pieces(text::ReplaceInvalidUtf8(backend_.model->TokenBytes(id, /*include_control=*/true)));
      }
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override {
    return OnPool(context, [this, request, response]() -> absl::Status {
      if (absl::Status status = CheckDetokenize(*request, backend_.model->facts()); !status.ok()) return status;
      const std::vector<int32_t> ids(request->ids().begin(), request->ids().end());
      response->set_text(backend_.model->Decode(ids, request->include_control()));
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override {
    const auto client = IdentifyClient(*context, options_.tokens);
    if (!client.ok()) return Finished(context, client.status());
    const ModelFacts& facts = backend_.model->facts();
    const absl::Status status = CheckModelName(request->model(), facts);
    if (status.ok()) {
      response->set_name(facts.name);
      response->set_architecture(facts.architecture);
      response->set_fingerprint(facts.fingerprint);
      response->set_context_length(facts.context_length);
      response->set_vocabulary_size(facts.vocabulary_size);
      response->mutable_eos_token_ids()->Add(facts.eos_ids.begin(), facts.eos_ids.end());
      if (facts.bos_id) response->set_bos_token_id(static_cast<uint32_t>(*facts.bos_id));
      response->set_adds_bos(facts.adds_bos);
      response->set_has_chat_template(facts.has_chat_template);
    }
    return Finished(context, status);
  }

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
                                      v1::GetStatusResponse* response) override {
    const auto client = IdentifyClient(*context, options_.tokens);
    if (!client.ok()) return Finished(context, client.status());
    response->set_version(Version());
    response->set_instance(options_.instance);
    response->set_active_requests(active_.count());
    for (const Worker& worker : backend_.registry->Snapshot()) *response->add_workers() = ToProto(worker);
    const auto owner = options_.tokens == nullptr ? std::nullopt : std::optional<std::string_view>(*client);
    for (v1::RequestSummary& request : backend_.recent->List(owner, backend_.clock->Now()))
      *response->add_requests() = std::move(request);
    return Finished(context, absl::OkStatus());
  }

 private:
  struct Admitted {
    Caller caller;
    uint64_t number;  // among the active calls
  };

  // Takes a generation in: who it is from, within its quota, with a place in this router.
  absl::StatusOr<Admitted> Admit(const grpc::CallbackServerContext& context) {
    Admitted admitted;
    KV_ASSIGN_OR_RETURN(admitted.caller.client, IdentifyClient(context, options_.tokens));
    if (draining_) return absl::UnavailableError("this router is about to stop");
    KV_ASSIGN_OR_RETURN(admitted.caller.ticket, quotas_.Enter(admitted.caller.client));
    const std::optional<uint64_t> number = active_.Enter();
    if (!number) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this router is full: ", active_.max(), " requests are in it; try again later"));
    }
    admitted.number = *number;
    return admitted;
  }

  static grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context, const absl::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(rpc::ToGrpc(status));
    return reactor;
  }

  // Within the client's quota of requests. Request and response live until Finish.
  template <typename Work>
  grpc::ServerUnaryReactor* OnPool(grpc::CallbackServerContext* context, Work work) {
    absl::StatusOr<std::string> client = IdentifyClient(*context, options_.tokens);
    if (!client.ok()) return Finished(context, client.status());
    absl::StatusOr<std::shared_ptr<QuotaTicket>> ticket = quotas_.Enter(*client);
    if (!ticket.ok()) return Finished(context, ticket.status());
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const bool taken = pool_.Submit([reactor, work = std::move(work), ticket = *std::move(ticket)]() mutable {
      const absl::Status status = work();
      ticket = nullptr;
      reactor->Finish(rpc::ToGrpc(status));
    });
    if (!taken) reactor->Finish(rpc::ToGrpc(PoolFull()));
    return reactor;
  }

  const Backend backend_;
  const ServiceOptions options_;
  std::atomic<bool> draining_{false};
  ClientQuotas quotas_;
  ActiveCalls active_;
  TextPool pool_;  // last: its jobs use what is above
};

}  // namespace

std::unique_ptr<GenerationService> NewGenerationService(const Backend& backend, const ServiceOptions& options) {
  return std::make_unique<Service>(backend, options);
}

}  // namespace kvrelay::router
