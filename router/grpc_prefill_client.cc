#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <utility>

#include "common/rpc/status_mapping.h"
#include "kvrelay/worker/v1/prefill.grpc.pb.h"
#include "router/grpc_clients.h"

namespace kvrelay::router {
namespace {

// Keeps itself alive from Start to OnDone.
class PrefillStream final : public grpc::ClientReadReactor<wire::PrefillResponse>,
                            public std::enable_shared_from_this<PrefillStream> {
 public:
  PrefillStream(const std::shared_ptr<grpc::Channel>& channel, wire::PrefillRequest request,
                std::shared_ptr<PrefillListener> listener)
      : stub_(channel), request_(std::move(request)), listener_(std::move(listener)) {}

  void Start() {
    self_ = shared_from_this();
    stub_.async()->Prefill(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;  // OnDone follows
    listener_->OnResponse(std::exchange(response_, {}));
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<PrefillStream> last = std::move(self_);
    listener_->OnEnd(rpc::FromGrpc(status));
    listener_ = nullptr;
  }

 private:
  wire::PrefillService::Stub stub_;
  grpc::ClientContext context_;
  const wire::PrefillRequest request_;
  std::shared_ptr<PrefillListener> listener_;
  std::shared_ptr<PrefillStream> self_;
  wire::PrefillResponse response_;
};

class PrefillHandle final : public PrefillCall {
 public:
  explicit PrefillHandle(std::shared_ptr<PrefillStream> stream) : stream_(std::move(stream)) {}
  ~PrefillHandle() override { stream_->Cancel(); }

 private:
  const std::shared_ptr<PrefillStream> stream_;
};

class GrpcPrefillClient final : public PrefillClient {
 public:
  explicit GrpcPrefillClient(WorkerChannels* channels) : channels_(channels) {}

  std::unique_ptr<PrefillCall> Open(const Worker& worker, const wire::PrefillRequest& request,
                                    std::shared_ptr<PrefillListener> listener) override {
    auto stream =
        std::make_shared<PrefillStream>(channels_->Get(worker.role, worker.address), request, std::move(listener));
    stream->Start();
    return std::make_unique<PrefillHandle>(std::move(stream));
  }

 private:
  WorkerChannels* const channels_;
};

}  // namespace

std::unique_ptr<PrefillClient> NewGrpcPrefillClient(WorkerChannels* channels) {
  return std::make_unique<GrpcPrefillClient>(channels);
}

}  // namespace kvrelay::router
