#include "decode_worker/receive_flow.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/duration.h"

namespace kvrelay::decode_worker {

using worker::v1::KvCommit;
using worker::v1::KvHeader;
using worker::v1::ReceiveKvRequest;
using worker::v1::ReceiveKvResponse;

absl::Status ReceiveFlow::OnMessage(const std::shared_ptr<KvStream>& stream, const ReceiveKvRequest& message,
                                    ReceiveKvResponse* response) {
  if (message.part_case() == ReceiveKvRequest::kHeader) return OnHeader(stream, message.header());
  if (message.part_case() == ReceiveKvRequest::PART_NOT_SET)
    return absl::InvalidArgumentError("a message of the handoff is none of header, frame and commit");
  if (reservation_ == nullptr) return absl::InvalidArgumentError("a handoff starts with its header");
  if (message.part_case() == ReceiveKvRequest::kFrame) return reservation_->OnFrame(attempt_, message.frame());
  return OnCommit(message.commit(), response);
}

absl::Status ReceiveFlow::OnHeader(const std::shared_ptr<KvStream>& stream, const KvHeader& header) {
  if (reservation_ != nullptr) return absl::InvalidArgumentError("a handoff has one header");
  KV_ASSIGN_OR_RETURN(std::shared_ptr<Reservation> reservation, reservations_.Find(header.handoff_id()));
  KV_RETURN_IF_ERROR(reservation->OnHeader(stream, header));
  reservation_ = std::move(reservation);
  attempt_ = header.attempt();
  return absl::OkStatus();
}

absl::Status ReceiveFlow::OnCommit(const KvCommit& commit, ReceiveKvResponse* response) {
  KV_ASSIGN_OR_RETURN(const kv_wire::HandoffReceipt receipt, reservation_->OnCommit(attempt_, commit));
  response->set_winner(receipt.winner);
  response->set_duplicate(receipt.duplicate);
  response->set_received(receipt.received);
  response->set_payload_bytes(receipt.payload_bytes);
  *response->mutable_duration() = rpc::ToProto(receipt.duration);
  return absl::OkStatus();
}

}  // namespace kvrelay::decode_worker
