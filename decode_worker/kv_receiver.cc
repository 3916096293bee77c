#include "decode_worker/kv_receiver.h"

#include <grpcpp/support/server_callback.h>

#include <mutex>
#include <utility>

#include "common/observability/log.h"
#include "common/rpc/status_mapping.h"
#include "decode_worker/receive_flow.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"

namespace kvrelay::decode_worker {
namespace {

using worker::v1::ReceiveKvRequest;
using worker::v1::ReceiveKvResponse;

class ReceiveCall final : public grpc::ServerReadReactor<ReceiveKvRequest>, public KvStream {
 public:
  static ReceiveCall* Start(const ReservationTable* reservations, ReceiveKvResponse* response) {
    auto call = std::make_shared<ReceiveCall>(reservations, response);
    call->self_ = call;
    call->StartRead(&call->request_);
    return call.get();
  }

  ReceiveCall(const ReservationTable* reservations, ReceiveKvResponse* response)
      : flow_(reservations), response_(response) {}

  void OnReadDone(bool ok) override {
    if (!ok) return End(ReceiveFlow::WithoutCommit());
    const absl::Status status = flow_.OnMessage(self_, request_, response_);
    if (!status.ok() || request_.part_case() == ReceiveKvRequest::kCommit) return End(status);
    StartRead(&request_);
  }

  void OnCancel() override { End(absl::CancelledError("the sender has ended")); }
  void OnDone() override { self_.reset(); }

  void End(const absl::Status& status) override {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(ended_, true)) return;
    }
    if (!status.ok()) {
      observability::LogWarning("receive_kv_failed", {{"code", absl::StatusCodeToString(status.code())},
                                                      {"message", std::string(status.message())}});
    }
    Finish(rpc::ToGrpc(status));
  }

 private:
  // Of the reads, which gRPC makes one at a time.
  ReceiveFlow flow_;
  ReceiveKvRequest request_;

  ReceiveKvResponse* const response_;
  std::shared_ptr<ReceiveCall> self_;  // until OnDone
  std::mutex mutex_;
  bool ended_ = false;  // Finish was or is being called
};

class KvServiceImpl final : public worker::v1::KvService::CallbackService {
 public:
  explicit KvServiceImpl(const ReservationTable* reservations) : reservations_(reservations) {}

  grpc::ServerReadReactor<ReceiveKvRequest>* ReceiveKv(grpc::CallbackServerContext*,
                                                       ReceiveKvResponse* response) override {
    return ReceiveCall::Start(reservations_, response);
  }

 private:
  const ReservationTable* const reservations_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewKvService(const ReservationTable* reservations) {
  return std::make_unique<KvServiceImpl>(reservations);
}

}  // namespace kvrelay::decode_worker
