// One Decode call: a small state machine between three kinds of threads.
//   commands            RPC threads, one at a time
//   publication of KV   the thread of a ReceiveKv call
//   tokens, the end     the compute thread (through a listener)
//
// new -> receiving (Reserve with SOURCE_RECEIVED) -> running (KV published) -> ended
//     -> running (other sources)                                            -> ended
//
// Invariants:
//   1. What the reservation holds (table entry, receiver, session) is let go in the step to `ended`, before the peer is
//   told.
//   2. The engine is started at most once, and never after the end.
//   3. Token `history` precedes all later ones on the stream: it is pushed before the engine is started.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <string>

#include "common/engine/engine.h"
#include "common/rpc/stream_writer.h"
#include "common/worker/context.h"
#include "decode_worker/reservation.h"
#include "kvrelay/worker/v1/decode.pb.h"

namespace kvrelay::decode_worker {

using worker::v1::DecodeRequest;
using worker::v1::DecodeResponse;

class DecodeCall final : public grpc::ServerBidiReactor<DecodeRequest, DecodeResponse>,
                         public worker::TickListener,
                         public std::enable_shared_from_this<DecodeCall> {
 public:
  // Events that may wait for a slow reader. Beyond them the call is cancelled.
  static constexpr size_t kMaxWaitingEvents = 1024;

  // A new call, alive until its OnDone.
  static DecodeCall* Start(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
                           ReservationTable* reservations);
  DecodeCall(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
             ReservationTable* reservations);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override { writer_.OnWriteDone(ok); }
  void OnCancel() override;
  void OnDone() override;
  void OnTick() override;

 private:
  enum class Phase { kNew, kReceiving, kRunning, kEnded };
  class Listener;
  // What was held, moved out under the lock and let go without it.
  struct Held {
    std::string handoff_id;
    std::shared_ptr<Reservation> reservation;
    std::shared_ptr<engine::Session> session;
  };

  absl::Status Handle(const DecodeRequest& request);
  absl::Status OnReserve(const worker::v1::Reserve& reserve);
  absl::Status OnAttempt(const worker::v1::Attempt& attempt);
  absl::Status OnFinish();
  absl::Status StartReceiving(const worker::v1::Reserve& reserve, std::shared_ptr<engine::Session> session);
  void OnPublished(const worker::v1::KvCommit& commit, uint32_t received);
  void StartEngine(const std::shared_ptr<engine::Session>& session);

  // From the compute thread.
  void OnBeat(uint64_t beat);
  void OnSelected(const engine::SelectedToken& token);
  void OnEnded(const absl::Status& status, sampling::EndReason reason, const engine::PositionCounts& counts);

  void PushReserved();
  // The two ends. Each does nothing after the first.
  void EndWith(sampling::EndReason reason, const engine::PositionCounts& counts);
  void Fail(const absl::Status& status);
  // Steps to `ended` and lets go of everything. False if it was there already.
  bool Release();

  const worker::WorkerContext& context_;
  ReservationTable& reservations_;
  rpc::StreamWriter<grpc::ServerBidiReactor<DecodeRequest, DecodeResponse>, DecodeResponse> writer_;
  DecodeRequest request_;             // of the reads, one at a time
  std::shared_ptr<DecodeCall> self_;  // until OnDone

  std::mutex mutex_;
  bool admitted_ = false;
  Phase phase_ = Phase::kNew;
  bool in_engine_ = false;  // from Start to OnEnded
  uint64_t last_beat_ = 0;
  Held held_;
  // Set once, before the phase leaves kNew.
  sampling::EndRule end_rule_;
  bool computes_prompt_ = false;
  bool logprobs_ = false, trace_ = false;
  worker::v1::Ended ended_;  // filled as the figures become known; compute thread, then the end
};

}  // namespace kvrelay::decode_worker
