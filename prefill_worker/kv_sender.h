// Ships the KV of one prompt to a decode worker while it is being computed: the client of ReceiveKv.
//
// The compute thread only says what is ready (OnLayer, Commit); frames are copied out of the cache and written by the
// RPC threads, one at a time and as fast as flow control lets them, or by the task thread when the line was idle.
//
// Invariants:
//   1. One write at a time: `writing_` is held from the choice of a frame to the end of its write, and whoever holds it
//   alone
//      uses the handoff's writer half.
//   2. The gRPC hold is given back exactly once, with the step to `closed_`; nothing is written after it.
//   3. `done` is called exactly once, after which the cache is let go.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/kv_wire/handoff_sender.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"
#include "kvrelay/worker/v1/prefill.pb.h"
#include "prefill_worker/kv_channels.h"
#include "prefill_worker/task_thread.h"

namespace kvrelay::prefill_worker {

// Figures of a finished transfer.
struct KvTransfer {
  worker::v1::ReceiveKvResponse receipt;
  uint64_t bytes_written = 0;
  uint64_t bytes_before_last_layer = 0;  // written before the last layer of the prompt was computed
  absl::Duration duration;               // first frame written until the receipt
  absl::Duration hidden;                 // its part before the last layer was computed
  uint32_t first_frame_layer = 0;        // highest layer computed when the first frame was written
};

class KvSender final : public grpc::ClientWriteReactor<worker::v1::ReceiveKvRequest>,
                       public std::enable_shared_from_this<KvSender> {
 public:
  // The receipt's figures, or why there is none: errors of the receiver with their code, UNAVAILABLE naming it if it
  // cannot be reached. Comes on an RPC thread.
  using Done = std::function<void(absl::StatusOr<KvTransfer>)>;

  // What sender and call have in common with others; all must outlive the sender.
  struct Shared {
    KvChannels* channels;
    TaskThread* tasks;
    const Clock* clock;
    const worker::v1::WorkerIdentity* identity;
  };

  // Opens the call and sends the header. The call ends with `parent` (deadline and cancellation).
  static std::shared_ptr<KvSender> Start(const Shared& shared, const grpc::CallbackServerContext& parent,
                                         std::shared_ptr<const kv::SequenceCache> cache, int first_position,
                                         int end_position, const worker::v1::Handoff& target, Done done);

  // Compute thread: layer `layer` of all positions below `end` is in the cache; `last_chunk`: these are all.
  void OnLayer(int layer, int end, bool last_chunk);
  // Compute thread: the token was selected; `commit` holds selected, ends_request and positions.
  void Commit(worker::v1::KvCommit commit);
  // Any thread: ends the call; `done` still comes. Idempotent.
  void Cancel();

  void OnWriteDone(bool ok) override;
  void OnReadInitialMetadataDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  KvSender(const Shared& shared, std::shared_ptr<const kv::SequenceCache> cache, int first_position, int end_position,
           const worker::v1::Handoff& target, Done done);

 private:
  // Writes what is next, unless a write is on the way or there is nothing.
  void WriteNext();
  void WriteFrame(const kv_wire::Piece& piece);
  void WriteCommit();
  // Wakes the line from a thread that must not copy frames.
  void Wake();
  // REQUIRES: locked, so that no write can start after the hold is gone.
  void Close();
  absl::StatusOr<KvTransfer> Outcome(const grpc::Status& status) const;

  const Shared shared_;
  const int layers_;
  const worker::v1::Handoff target_;
  kv_wire::HandoffSender handoff_;  // its two halves: compute thread; holder of writing_
  Done done_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<worker::v1::KvService::Stub> stub_;
  worker::v1::ReceiveKvRequest request_;  // of the holder of writing_
  worker::v1::ReceiveKvResponse receipt_;
  std::shared_ptr<KvSender> self_;  // until OnDone

  mutable std::mutex mutex_;
  bool writing_ = true;  // the header
  bool closed_ = false;
  bool committed_ = false;  // the commit was handed to gRPC
  std::deque<kv_wire::Piece> ready_;
  std::optional<worker::v1::KvCommit> commit_;
  int layer_ = 0;  // layer computed last
  uint64_t writing_bytes_ = 0;
  std::optional<absl::Duration> first_frame_at_, last_layer_at_;
  KvTransfer transfer_;
};

}  // namespace kvrelay::prefill_worker
