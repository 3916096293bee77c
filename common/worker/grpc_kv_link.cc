#include "common/worker/grpc_kv_link.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <mutex>
#include <utility>

#include "common/rpc/status_mapping.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"

namespace kvrelay::worker {
namespace {

using v1::ReceiveKvRequest;
using v1::ReceiveKvResponse;

// Keeps itself alive from Start to OnDone. Writes are started outside gRPC's reactions, so a hold keeps the call from
// ending under them; it is given back exactly once, with the step to `closed_`, and nothing is written after it.
class Link final : public grpc::ClientWriteReactor<ReceiveKvRequest>,
                   public kv_wire::KvLink,
                   public std::enable_shared_from_this<Link> {
 public:
  Link(const std::shared_ptr<grpc::Channel>& channel, std::unique_ptr<grpc::ClientContext> context,
       std::shared_ptr<kv_wire::KvLinkListener> listener)
      : stub_(channel), context_(std::move(context)), listener_(std::move(listener)) {}

  void Start() {
    self_ = shared_from_this();
    stub_.async()->ReceiveKv(context_.get(), &receipt_, this);
    AddHold();
    StartCall();
  }

  void Write(const ReceiveKvRequest& message, bool last) override {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    if (!last) return StartWrite(&message);
    StartWriteLast(&message, grpc::WriteOptions());
    Close();
  }

  void Cancel() override {
    {
      std::lock_guard lock(mutex_);
      Close();
    }
    context_->TryCancel();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      std::lock_guard lock(mutex_);
      Close();  // OnDone tells why
    }
    listener_->OnWritten(ok);
  }

  // The receiver says nothing before its answer, so its first word means that the call is over, also when no write is
  // on the way that would tell.
  void OnReadInitialMetadataDone(bool ok) override {
    std::lock_guard lock(mutex_);
    Close();
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Link> last = std::move(self_);
    std::exchange(listener_, nullptr)->OnLinkEnded(rpc::FromGrpc(status), receipt_);
  }

 private:
  // REQUIRES: locked.
  void Close() {
    if (!std::exchange(closed_, true)) RemoveHold();
  }

  v1::KvService::Stub stub_;
  const std::unique_ptr<grpc::ClientContext> context_;
  std::shared_ptr<kv_wire::KvLinkListener> listener_;
  ReceiveKvResponse receipt_;
  std::shared_ptr<Link> self_;
  std::mutex mutex_;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<kv_wire::KvLink> GrpcKvTransport::Open(const std::string& address,
                                                       std::shared_ptr<kv_wire::KvLinkListener> listener) {
  auto link = std::make_shared<Link>(channels_->Get(address), grpc::ClientContext::FromCallbackServerContext(*parent_),
                                     std::move(listener));
  link->Start();
  return link;
}

}  // namespace kvrelay::worker
