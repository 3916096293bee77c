#include "decode_worker/reservation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/planted_bug.h"
#include "common/base/status_macros.h"

namespace kvrelay::decode_worker {

using kv_wire::HandoffReceipt;
using kv_wire::HandoffReceiver;

Reservation::Reservation(std::unique_ptr<HandoffReceiver> receiver, Published published)
    : receiver_(std::move(receiver)), published_(std::move(published)) {}

absl::StatusOr<std::shared_ptr<HandoffReceiver>> Reservation::Receiver() const {
  std::lock_guard lock(mutex_);
  if (receiver_ == nullptr) return absl::CancelledError("the owner of the reservation has ended");
  return receiver_;
}

absl::StatusOr<uint32_t> Reservation::OpenAttempt(uint32_t attempt, const std::string& sender_instance) {
  KV_ASSIGN_OR_RETURN(const std::shared_ptr<HandoffReceiver> receiver, Receiver());
  KV_ASSIGN_OR_RETURN(const uint32_t winner, receiver->OpenAttempt(attempt, sender_instance));
  if (winner != 0) return winner;
  std::vector<Bound> closed;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(streams_, [&](const Bound& bound) {
      if (bound.attempt >= attempt || KV_PLANTED(no_fence)) return false;
      closed.push_back(bound);
      return true;
    });
  }
  for (const Bound& bound : closed) {
    if (const auto stream = bound.stream.lock()) {
      stream->End(absl::AbortedError(absl::StrCat("attempt ", attempt, " has taken over")));
    }
  }
  return 0;
}

absl::Status Reservation::OnHeader(const std::shared_ptr<KvStream>& stream, const worker::v1::KvHeader& header) {
  // Bound before the header is taken: whoever closes the attempt from now on finds the stream.
  std::shared_ptr<HandoffReceiver> receiver;
  {
    std::lock_guard lock(mutex_);
    if (receiver_ == nullptr) return absl::CancelledError("the owner of the reservation has ended");
    receiver = receiver_;
    std::erase_if(streams_, [](const Bound& bound) { return bound.stream.expired(); });
    streams_.push_back({header.attempt(), stream});
  }
  return receiver->OnHeader(header);
}

absl::Status Reservation::OnFrame(uint32_t attempt, const worker::v1::KvFrame& frame) {
  KV_ASSIGN_OR_RETURN(const std::shared_ptr<HandoffReceiver> receiver, Receiver());
  return receiver->OnFrame(attempt, frame);
}

absl::StatusOr<HandoffReceipt> Reservation::OnCommit(uint32_t attempt, const worker::v1::KvCommit& commit) {
  KV_ASSIGN_OR_RETURN(const std::shared_ptr<HandoffReceiver> receiver, Receiver());
  KV_ASSIGN_OR_RETURN(const HandoffReceipt receipt, receiver->OnCommit(attempt, commit));
  if (receipt.duplicate) return receipt;
  Published published;
  {
    std::lock_guard lock(mutex_);
    published = std::exchange(published_, nullptr);
    // The call of the receipt is on its own now: the owner may end in `published`, and the receipt must still get out.
    std::erase_if(streams_, [&](const Bound& bound) { return bound.attempt == attempt; });
  }
  if (published == nullptr) return absl::CancelledError("the owner of the reservation has ended");
  published(commit, receipt);
  return receipt;
}

void Reservation::Close() {
  std::shared_ptr<HandoffReceiver> receiver;
  std::vector<Bound> streams;
  Published published;  // may own the owner: destroyed unlocked
  {
    std::lock_guard lock(mutex_);
    receiver = std::exchange(receiver_, nullptr);
    streams = std::exchange(streams_, {});
    published = std::exchange(published_, nullptr);
  }
  if (receiver == nullptr) return;
  receiver->Close();
  for (const Bound& bound : streams) {
    if (const auto stream = bound.stream.lock())
      stream->End(absl::CancelledError("the owner of the reservation has ended"));
  }
}

absl::Status ReservationTable::Add(const std::string& handoff_id, std::shared_ptr<Reservation> reservation) {
  std::lock_guard lock(mutex_);
  if (reservations_.emplace(handoff_id, std::move(reservation)).second) return absl::OkStatus();
  return absl::InvalidArgumentError("the handoff id is in use; draw a fresh one for every reservation");
}

void ReservationTable::Remove(const std::string& handoff_id) {
  std::lock_guard lock(mutex_);
  reservations_.erase(handoff_id);
}

size_t ReservationTable::size() const {
  std::lock_guard lock(mutex_);
  return reservations_.size();
}

absl::StatusOr<std::shared_ptr<Reservation>> ReservationTable::Find(const std::string& handoff_id) const {
  std::lock_guard lock(mutex_);
  const auto found = reservations_.find(handoff_id);
  if (found == reservations_.end()) return absl::NotFoundError("no reservation has this handoff id");
  return found->second;
}

}  // namespace kvrelay::decode_worker
