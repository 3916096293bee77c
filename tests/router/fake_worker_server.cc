#include "tests/router/fake_worker_server.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "common/rpc/server.h"
#include "kvrelay/worker/v1/decode.grpc.pb.h"
#include "kvrelay/worker/v1/prefill.grpc.pb.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"
#include "tests/router/fake_model.h"

namespace kvrelay::router {
namespace {

constexpr std::chrono::milliseconds kPoll{3};

class Count {
 public:
  explicit Count(std::atomic<int>* count) : count_(count) { ++*count_; }
  ~Count() { --*count_; }

 private:
  std::atomic<int>* const count_;
};

}  // namespace

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 12000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void FakeFabric::Publish(const std::string& handoff_id, const wire::Selected& selected) {
  std::lock_guard lock(mutex_);
  selected_[handoff_id] = selected;
  published_.notify_all();
}

bool FakeFabric::Take(const std::string& handoff_id, wire::Selected* selected) {
  std::unique_lock lock(mutex_);
  if (!published_.wait_for(lock, kPoll, [&] { return selected_.contains(handoff_id); })) return false;
  *selected = selected_[handoff_id];
  return true;
}

struct FakeWorkerServer::Parts {
  FakeWorkerOptions options;
  FakeFabric* fabric;
  std::vector<std::unique_ptr<grpc::Service>> services;
  std::unique_ptr<rpc::Server> server;

  wire::WorkerIdentity Identity() const {
    wire::WorkerIdentity identity;
    identity.set_instance(options.instance);
    identity.set_epoch(options.epoch);
    identity.set_model_fingerprint(options.fingerprint.empty() ? kFakeFingerprint : options.fingerprint);
    identity.set_numerics_id("n1");
    identity.set_version("test");
    return identity;
  }
};

class FakeWorkerServer::StatusService final : public wire::WorkerService::Service {
 public:
  explicit StatusService(FakeWorkerServer* worker) : worker_(worker) {}
  grpc::Status WatchStatus(grpc::ServerContext* context, const wire::WatchStatusRequest*,
                           grpc::ServerWriter<wire::WatchStatusResponse>* writer) override {
    const Parts& parts = *worker_->parts_;
    while (!context->IsCancelled()) {
      wire::WatchStatusResponse status;
      *status.mutable_identity() = parts.Identity();
      const bool prefill = parts.options.role == v1::WORKER_ROLE_PREFILL;
      status.set_role(!parts.options.claims_role.empty() ? parts.options.claims_role : prefill ? "prefill" : "decode");
      status.set_context_length(kFakeContext);
      status.set_draining(worker_->draining);
      status.mutable_load()->set_beat(worker_->frozen ? beat_.load() : ++beat_);
      status.mutable_load()->set_active_sessions(static_cast<uint32_t>(worker_->active_calls()));
      if (!writer->Write(status)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return grpc::Status::OK;
  }

 private:
  FakeWorkerServer* const worker_;
  std::atomic<uint64_t> beat_{0};
};

class FakeWorkerServer::PrefillService final : public wire::PrefillService::Service {
 public:
  explicit PrefillService(FakeWorkerServer* worker) : worker_(worker) {}

  grpc::Status Prefill(grpc::ServerContext* context, const wire::PrefillRequest* request,
                       grpc::ServerWriter<wire::PrefillResponse>* writer) override {
    const Count count(&worker_->active_calls_);
    worker_->Record(*context);
    wire::PrefillResponse response;
    *response.mutable_progress()->mutable_identity() = worker_->parts_->Identity();
    writer->Write(response);
    while (worker_->hold_tokens && !context->IsCancelled()) {
      response.mutable_progress()->set_beat(response.progress().beat() + 1);
      writer->Write(response);
      std::this_thread::sleep_for(kPoll);
    }
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    FakeSession session(request->spec(), /*cached=*/true);
    const wire::Selected selected = session.Select();
    *response.mutable_selected() = selected;
    writer->Write(response);
    if (request->has_handoff()) {
      worker_->parts_->fabric->Publish(request->handoff().handoff_id(), selected);
      session.Ship();
      response.mutable_done()->set_bytes_shipped(100 * static_cast<uint64_t>(request->spec().token_ids_size()));
    }
    *response.mutable_done()->mutable_positions() = session.positions();
    writer->Write(response);
    return grpc::Status::OK;
  }

 private:
  FakeWorkerServer* const worker_;
};

class FakeWorkerServer::DecodeService final : public wire::DecodeService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<wire::DecodeResponse, wire::DecodeRequest>;
  explicit DecodeService(FakeWorkerServer* worker) : worker_(worker) {}

  grpc::Status Decode(grpc::ServerContext* context, Stream* stream) override {
    const Count count(&worker_->active_calls_);
    worker_->Record(*context);
    wire::DecodeRequest request;
    if (!stream->Read(&request) || !request.has_reserve()) return {grpc::StatusCode::INVALID_ARGUMENT, "no Reserve"};
    Call call{.context = context, .stream = stream};
    wire::DecodeResponse response;
    *response.mutable_reserved()->mutable_identity() = worker_->parts_->Identity();
    response.mutable_reserved()->set_kv_address("fabric:1");
    call.Write(response);
    // Reads until the router lets go of the call.
    std::thread commands([&] {
      wire::DecodeRequest command;
      while (stream->Read(&command)) OnCommand(command, &call);
    });
    Generate(request.reserve(), &call);
    commands.join();
    return grpc::Status::OK;
  }

 private:
  struct Call {
    grpc::ServerContext* context;
    Stream* stream;
    std::mutex write_mutex = {};
    std::atomic<bool> finish = false;

    void Write(const wire::DecodeResponse& response) {
      std::lock_guard lock(write_mutex);
      stream->Write(response);
    }
    void WriteSelected(const wire::Selected& selected) {
      wire::DecodeResponse response;
      *response.mutable_selected() = selected;
      Write(response);
    }
  };

  static void OnCommand(const wire::DecodeRequest& command, Call* call) {
    if (command.has_finish()) call->finish = true;
    if (!command.has_attempt()) return;
    wire::DecodeResponse response;
    response.mutable_attempt_open()->set_attempt(command.attempt().attempt());
    call->Write(response);
  }

  void Generate(const wire::Reserve& reserve, Call* call) {
    FakeSession session(reserve.spec(), reserve.source() != wire::SOURCE_NO_CACHE);
    wire::Selected selected;
    if (reserve.source() == wire::SOURCE_RECEIVED) {
      while (!worker_->parts_->fabric->Take(reserve.handoff_id(), &selected)) {
        if (call->context->IsCancelled()) return;
      }
      selected = session.Receive(selected);
      call->WriteSelected(selected);
    }
    for (int sent = 0; selected.end() == wire::END_REASON_UNSPECIFIED && !call->finish; ++sent) {
      const int limit = worker_->tokens_until_hold;
      const bool held = limit >= 0 && sent >= limit;
      while ((worker_->hold_tokens || held) && !call->finish && !call->context->IsCancelled()) {
        std::this_thread::sleep_for(kPoll);
      }
      if (call->context->IsCancelled()) return;
      if (call->finish) break;
      selected = session.Select();
      call->WriteSelected(selected);
    }
    wire::DecodeResponse response;
    response.mutable_ended()->set_reason(call->finish ? wire::END_REASON_FINISHED_BY_ROUTER : selected.end());
    *response.mutable_ended()->mutable_positions() = session.positions();
    call->Write(response);
  }

  FakeWorkerServer* const worker_;
};

FakeWorkerServer::FakeWorkerServer(FakeWorkerOptions options, FakeFabric* fabric) : parts_(new Parts()) {
  parts_->options = std::move(options);
  parts_->fabric = fabric;
  parts_->services.push_back(std::make_unique<StatusService>(this));
  std::vector<rpc::ServedService> served{{wire::WorkerService::service_full_name(), parts_->services[0].get()}};
  if (parts_->options.role == v1::WORKER_ROLE_PREFILL) {
    parts_->services.push_back(std::make_unique<PrefillService>(this));
    served.push_back({wire::PrefillService::service_full_name(), parts_->services[1].get()});
  } else {
    parts_->services.push_back(std::make_unique<DecodeService>(this));
    served.push_back({wire::DecodeService::service_full_name(), parts_->services[1].get()});
  }
  auto server = rpc::Server::Start({.listen = parts_->options.listen}, served);
  EXPECT_TRUE(server.ok()) << server.status();
  parts_->server = *std::move(server);
}

void FakeWorkerServer::Record(const grpc::ServerContext& context) {
  std::lock_guard lock(metadata_mutex_);
  for (const auto& [name, value] : context.client_metadata()) {
    metadata_.emplace(std::string(name.data(), name.size()), std::string(value.data(), value.size()));
  }
}

std::multimap<std::string, std::string> FakeWorkerServer::metadata() const {
  std::lock_guard lock(metadata_mutex_);
  return metadata_;
}

FakeWorkerServer::~FakeWorkerServer() { parts_->server->Shutdown(absl::ZeroDuration()); }

const std::string& FakeWorkerServer::address() const { return parts_->server->address(); }

}  // namespace kvrelay::router
