#include "tests/router/fake_worker_server.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

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

class FakeWorkerServer::Status final : public wire::WorkerService::Service {
 public:
  explicit Status(FakeWorkerServer* worker) : worker_(worker) {}
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

class FakeWorkerServer::Prefill final : public wire::PrefillService::Service {
 public:
  explicit Prefill(FakeWorkerServer* worker) : worker_(worker) {}
  grpc::Status Prefill_(grpc::ServerContext* context, const wire::PrefillRequest* request,
                        grpc::ServerWriter<wire::PrefillResponse>* writer) {
    const Count count(&worker_->active_calls_);
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
    *response.mutable_selected() = session.Select();
    writer->Write(response);
    if (request->has_handoff()) {
      worker_->parts_->fabric->Publish(request->handoff().handoff_id(), response.selected());
      session.Ship();
    }
    *response.mutable_done()->mutable_positions() = session.positions();
    writer->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status Prefill(grpc::ServerContext* context, const wire::PrefillRequest* request,
                       grpc::ServerWriter<wire::PrefillResponse>* writer) override {
    return Prefill_(context, request, writer);
  }

 private:
  FakeWorkerServer* const worker_;
};

class FakeWorkerServer::Decode final : public wire::DecodeService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<wire::DecodeResponse, wire::DecodeRequest>;
  explicit Decode(FakeWorkerServer* worker) : worker_(worker) {}

  grpc::Status Decode_(grpc::ServerContext* context, Stream* stream) {
    const Count count(&worker_->active_calls_);
    wire::DecodeRequest request;
    if (!stream->Read(&request) || !request.has_reserve()) return {grpc::StatusCode::INVALID_ARGUMENT, "no Reserve"};
    const wire::Reserve reserve = request.reserve();
    wire::DecodeResponse response;
    *response.mutable_reserved()->mutable_identity() = worker_->parts_->Identity();
    response.mutable_reserved()->set_kv_address("fabric:1");
    stream->Write(response);
    std::atomic<bool> finish{false};
    std::mutex write_mutex;
    std::thread reader([&] {
      wire::DecodeRequest command;
      while (stream->Read(&command)) {
        if (command.has_finish()) finish = true;
        if (!command.has_attempt()) continue;
        wire::DecodeResponse open;
        open.mutable_attempt_open()->set_attempt(command.attempt().attempt());
        std::lock_guard lock(write_mutex);
        stream->Write(open);
      }
    });
    Generate(context, reserve, finish, [&](const wire::DecodeResponse& event) {
      std::lock_guard lock(write_mutex);
      return stream->Write(event);
    });
    context->TryCancelReads();
    reader.join();
    return grpc::Status::OK;
  }
  grpc::Status Decode(grpc::ServerContext* context, Stream* stream) override { return Decode_(context, stream); }

 private:
  FakeWorkerServer* const worker_;
};

}  // namespace kvrelay::router
