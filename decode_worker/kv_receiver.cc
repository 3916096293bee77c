#include "decode_worker/kv_receiver.h"

#include <grpcpp/support/server_callback.h>

#include <mutex>
#include <utility>

#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/duration.h"
#include "common/rpc/status_mapping.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"

namespace kvrelay::decode_worker {
namespace {

using worker::v1::KvHeader;
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
      : reservations_(*reservations), response_(response) {}

  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::DataLossError("the handoff ended without a commit"));
    const absl::Status status = Handle();
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
  absl::Status Handle() {
    switch (request_.part_case()) {
      case ReceiveKvRequest::kHeader:
        return OnHeader(request_.header());
      case ReceiveKvRequest::kFrame:
        if (reservation_ == nullptr) return absl::InvalidArgumentError("a handoff starts with its header");
        return reservation_->OnFrame(attempt_, request_.frame());
      case ReceiveKvRequest::kCommit:
        if (reservation_ == nullptr) return absl::InvalidArgumentError("a handoff starts with its header");
        return OnCommit();
      case ReceiveKvRequest::PART_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("a message of the handoff is none of header, frame and commit");
  }

  absl::Status OnHeader(const KvHeader& header) {
    if (reservation_ != nullptr) return absl::InvalidArgumentError("a handoff has one header");
    KV_ASSIGN_OR_RETURN(std::shared_ptr<Reservation> reservation, reservations_.Find(header.handoff_id()));
    KV_RETURN_IF_ERROR(reservation->OnHeader(self_, header));
    reservation_ = std::move(reservation);
    attempt_ = header.attempt();
    return absl::OkStatus();
  }

  absl::Status OnCommit() {
    KV_ASSIGN_OR_RETURN(const kv_wire::HandoffReceipt receipt, reservation_->OnCommit(attempt_, request_.commit()));
    response_->set_winner(receipt.winner);
    response_->set_duplicate(receipt.duplicate);
    response_->set_received(receipt.received);
    response_->set_payload_bytes(receipt.payload_bytes);
    *response_->mutable_duration() = rpc::ToProto(receipt.duration);
    return absl::OkStatus();
  }

  const ReservationTable& reservations_;
  ReceiveKvResponse* const response_;
  std::shared_ptr<ReceiveCall> self_;  // until OnDone

  // Of the reads, which gRPC makes one at a time.
  ReceiveKvRequest request_;
  std::shared_ptr<Reservation> reservation_;
  uint32_t attempt_ = 0;

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
