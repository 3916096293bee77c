#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <mutex>
#include <utility>

#include "common/rpc/status_mapping.h"
#include "kvrelay/worker/v1/decode.grpc.pb.h"
#include "router/grpc_clients.h"

namespace kvrelay::router {
namespace {

// Keeps itself alive from Start to OnDone.
class DecodeStream final : public grpc::ClientBidiReactor<wire::DecodeRequest, wire::DecodeResponse>,
                           public std::enable_shared_from_this<DecodeStream> {
 public:
  DecodeStream(const std::shared_ptr<grpc::Channel>& channel, std::shared_ptr<DecodeListener> listener)
      : stub_(channel), listener_(std::move(listener)) {}

  void Start() {
    self_ = shared_from_this();
    stub_.async()->Decode(&context_, this);
    AddHold();  // writes are started from outside; the hold goes when the last read has failed
    StartRead(&response_);
    StartCall();
  }

  void Send(wire::DecodeRequest request) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    queue_.push_back(std::move(request));
    WriteNext();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (ok) {
      listener_->OnResponse(std::exchange(response_, {}));
      return StartRead(&response_);
    }
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) closed_ = true;
    WriteNext();
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<DecodeStream> last = std::move(self_);
    listener_->OnEnd(rpc::FromGrpc(status));
    listener_ = nullptr;
  }

 private:
  void WriteNext() {
    if (writing_ || closed_ || queue_.empty()) return;
    writing_ = true;
    request_ = std::move(queue_.front());
    queue_.pop_front();
    StartWrite(&request_);
  }

  wire::DecodeService::Stub stub_;
  grpc::ClientContext context_;
  std::shared_ptr<DecodeListener> listener_;
  std::shared_ptr<DecodeStream> self_;
  wire::DecodeResponse response_;

  std::mutex mutex_;
  std::deque<wire::DecodeRequest> queue_;
  wire::DecodeRequest request_;  // being written
  bool writing_ = false;
  bool closed_ = false;
};

class DecodeHandle final : public DecodeCall {
 public:
  explicit DecodeHandle(std::shared_ptr<DecodeStream> stream) : stream_(std::move(stream)) {}
  ~DecodeHandle() override { stream_->Cancel(); }
  void Send(wire::DecodeRequest request) override { stream_->Send(std::move(request)); }

 private:
  const std::shared_ptr<DecodeStream> stream_;
};

class GrpcDecodeClient final : public DecodeClient {
 public:
  explicit GrpcDecodeClient(WorkerChannels* channels) : channels_(channels) {}

  std::unique_ptr<DecodeCall> Open(const Worker& worker, std::shared_ptr<DecodeListener> listener) override {
    auto stream = std::make_shared<DecodeStream>(channels_->Get(worker.role, worker.address), std::move(listener));
    stream->Start();
    return std::make_unique<DecodeHandle>(std::move(stream));
  }

 private:
  WorkerChannels* const channels_;
};

}  // namespace

std::unique_ptr<DecodeClient> NewGrpcDecodeClient(WorkerChannels* channels) {
  return std::make_unique<GrpcDecodeClient>(channels);
}

}  // namespace kvrelay::router
