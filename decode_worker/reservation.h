// The receiving side of one Decode call's reservation, as ReceiveKv calls see it: who may write, which calls are at it,
// and when that ends. The rules of the handoff itself are kv_wire::HandoffReceiver's.
//
// Invariants:
//   1. Close() returns only when no write is running and none can start; the calls are cancelled before the receiver,
//   and with
//      it the cache, is let go.
//   2. Calls hold a Reservation, never its receiver or cache beyond one message, so blocks never wait for a peer.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv_wire/handoff_receiver.h"
#include "kvrelay/worker/v1/kv.pb.h"

namespace kvrelay::decode_worker {

// A ReceiveKv call, to be ended from outside. End may come on any thread, and more than once.
class KvStream {
 public:
  virtual ~KvStream() = default;
  virtual void End(const absl::Status& status) = 0;
};

class Reservation {
 public:
  // Called once, on the thread of the ReceiveKv call, when KV was published: the owner takes it from there.
  using Published = std::function<void(const worker::v1::KvCommit&, const kv_wire::HandoffReceipt&)>;

  Reservation(std::unique_ptr<kv_wire::HandoffReceiver> receiver, Published published);

  // See HandoffReceiver. Ends the calls of earlier attempts with ABORTED.
  absl::StatusOr<uint32_t> OpenAttempt(uint32_t attempt, const std::string& sender_instance);
  // The messages of a ReceiveKv call; `stream` is the call. CANCELLED once closed.
  absl::Status OnHeader(const std::shared_ptr<KvStream>& stream, const worker::v1::KvHeader& header);
  absl::Status OnFrame(uint32_t attempt, const worker::v1::KvFrame& frame);
  absl::StatusOr<kv_wire::HandoffReceipt> OnCommit(uint32_t attempt, const worker::v1::KvCommit& commit);
  // The owner has ended. Idempotent.
  void Close();

 private:
  struct Bound {
    uint32_t attempt;
    std::weak_ptr<KvStream> stream;
  };

  // CANCELLED once closed.
  absl::StatusOr<std::shared_ptr<kv_wire::HandoffReceiver>> Receiver() const;

  mutable std::mutex mutex_;
  std::shared_ptr<kv_wire::HandoffReceiver> receiver_;  // null once closed
  Published published_;                                 // null once called or closed
  std::vector<Bound> streams_;
};

// The reservations of a worker by handoff id. Thread-safe.
class ReservationTable {
 public:
  // INVALID_ARGUMENT if the id is taken.
  absl::Status Add(const std::string& handoff_id, std::shared_ptr<Reservation> reservation);
  void Remove(const std::string& handoff_id);
  // NOT_FOUND if there is none.
  absl::StatusOr<std::shared_ptr<Reservation>> Find(const std::string& handoff_id) const;
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Reservation>> reservations_;
};

}  // namespace kvrelay::decode_worker
