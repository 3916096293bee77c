// One ReceiveKv call, without gRPC: brings its messages to the reservation that they name, and owns nothing.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "decode_worker/reservation.h"
#include "kvrelay/worker/v1/kv.pb.h"

namespace kvrelay::decode_worker {

// Not thread-safe: messages come one at a time.
class ReceiveFlow {
 public:
  // `reservations` must outlive the flow.
  explicit ReceiveFlow(const ReservationTable* reservations) : reservations_(*reservations) {}

  // Takes a message of the call `stream`. An error ends the call with it; so does a commit, with `response`, once OK.
  absl::Status OnMessage(const std::shared_ptr<KvStream>& stream, const worker::v1::ReceiveKvRequest& message,
                         worker::v1::ReceiveKvResponse* response);
  // What a call has ended with whose messages end before a commit.
  static absl::Status WithoutCommit() { return absl::DataLossError("the handoff ended without a commit"); }

 private:
  absl::Status OnHeader(const std::shared_ptr<KvStream>& stream, const worker::v1::KvHeader& header);
  absl::Status OnCommit(const worker::v1::KvCommit& commit, worker::v1::ReceiveKvResponse* response);

  const ReservationTable& reservations_;
  std::shared_ptr<Reservation> reservation_;
  uint32_t attempt_ = 0;
};

}  // namespace kvrelay::decode_worker
