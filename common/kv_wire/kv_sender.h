// Ships the KV of one sequence to a decode worker while it grows: the sending end of ReceiveKv, for a prompt that is
// being computed and for a stream that moves.
//
// The compute thread only says what is ready; frames are copied out of the cache and written by the threads of the
// link, one at a time and as fast as flow control lets them, or by the task runner when the line was idle.
//
// Invariants:
//   1. One write at a time: `writing_` is held from the choice of a frame to the end of its write, and whoever holds it
//      alone uses the handoff's writer half.
//   2. Nothing is written after the step to `closed_`.
//   3. `done` is called exactly once, after which the cache is let go.
//   4. A frame is built and written only with room in the process's budget, given back when it is written or the link
//      has ended.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/task_runner.h"
#include "common/kv_wire/handoff_sender.h"
#include "common/kv_wire/kv_link.h"
#include "common/kv_wire/send_budget.h"

namespace kvrelay::kv_wire {

// Frames of one layer, written without another layer's in between.
struct Shipment {
  int layer;
  int first_position, end_position;
  uint64_t bytes;
  absl::Duration began, ended;  // of the clock
};

// Figures of a finished transfer.
struct KvTransfer {
  static constexpr size_t kShipmentsMax = 1024;

  worker::v1::ReceiveKvResponse receipt;
  uint64_t bytes_written = 0;
  uint64_t bytes_before_last_layer = 0;  // written before the last layer of the prompt was computed
  absl::Duration duration;               // first frame written until the receipt
  absl::Duration hidden;                 // its part before the last layer was computed
  uint32_t first_frame_layer = 0;        // highest layer computed when the first frame was written
  std::vector<Shipment> shipments;       // in order, the first kShipmentsMax
};

// Where KV goes.
struct KvTarget {
  std::string handoff_id;
  uint32_t attempt = 1;
  std::string address;   // host:port of the KvService
  std::string instance;  // for messages
};

class KvSender final : public KvLinkListener, public std::enable_shared_from_this<KvSender> {
 public:
  // The receipt's figures, or why there is none: errors of the receiver with their code, ABORTED naming it if it
  // cannot be reached. Comes on a thread of the link.
  using Done = std::function<void(absl::StatusOr<KvTransfer>)>;

  // What the sender works with; all must outlive it, but for `transport`, of which only Start makes use.
  struct Deps {
    KvTransport* transport;
    TaskRunner* tasks;
    SendBudget* budget;  // of the process
    const Clock* clock;
    const worker::v1::WorkerIdentity* identity;
  };

  // Opens the call and sends the header. `end_position` is final for a prompt, an upper bound for a move.
  static std::shared_ptr<KvSender> Start(const Deps& deps, std::shared_ptr<const kv::SequenceCache> cache,
                                         int first_position, int end_position, KvTarget target, Done done);
  KvSender(const Deps& deps, std::shared_ptr<const kv::SequenceCache> cache, int first_position, int end_position,
           KvTarget target, Done done);

  // One thread at a time calls these three: whoever started it until the engine has the sequence, then the compute
  // thread.
  // Layer `layer` of all positions below `end` is in the cache; `last_chunk`: these are all.
  void OnLayer(int layer, int end, bool last_chunk);
  // Every layer of all positions below `end` is in the cache: of a stream that moves, or of a prompt's known beginning.
  void OnPositions(int end);
  // The positions end at `end`, whose KV is ready. `commit` holds selected, ends_request and positions.
  void Commit(int end, worker::v1::KvCommit commit);

  // Any thread. Frames that are ready and not yet written.
  size_t backlog() const;
  // Any thread: ends the call; `done` still comes. Idempotent.
  void Cancel();

  void OnWritten(bool ok) override;
  void OnLinkEnded(const absl::Status& status, const worker::v1::ReceiveKvResponse& receipt) override;

 private:
  void Queue(const std::vector<Piece>& pieces);
  // Writes what is next, unless a write is on the way or there is nothing.
  void WriteNext();
  // The budget has room for the frame chosen.
  void OnGranted(const Piece& piece);
  // Pays back what the frame took, if one is under way, and gives its bytes. REQUIRES: called without the lock.
  uint64_t GiveBack();
  void WriteCommit();
  // Notes that the frame under way is written. REQUIRES: mutex_ is held.
  void NoteWritten(uint64_t bytes);
  // Wakes the line from a thread that must not copy frames.
  void Wake();
  absl::StatusOr<KvTransfer> Outcome(const absl::Status& status, const worker::v1::ReceiveKvResponse& receipt) const;

  TaskRunner* const tasks_;
  SendBudget* const budget_;
  const Clock* const clock_;
  const int layers_;
  const KvTarget target_;
  HandoffSender handoff_;  // its two halves: compute thread; holder of writing_
  Done done_;
  worker::v1::ReceiveKvRequest request_;  // of the holder of writing_

  mutable std::mutex mutex_;
  std::shared_ptr<KvLink> link_;  // until the end
  bool writing_ = true;           // the header
  bool closed_ = false;
  bool committed_ = false;  // the commit was handed to the link
  std::deque<Piece> ready_;
  std::optional<worker::v1::KvCommit> commit_;
  int layer_ = 0;       // layer computed last
  uint64_t taken_ = 0;  // of the budget, by the frame that is being written
  Shipment frame_{};    // that is being written
  std::optional<absl::Duration> first_frame_at_, last_layer_at_;
  KvTransfer transfer_;
};

}  // namespace kvrelay::kv_wire
