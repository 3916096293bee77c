// One Decode call, without gRPC: owns one reservation, from Reserve to the end of the call.
//
// States:
//   new        nothing is held.
//                Reserve: room is taken -> receiving (the KV comes from another worker) or running; refused -> ended
//   receiving  the reservation takes KV; attempts may be opened, each closing the one before.
//                KV published -> running, or ended if its last token ends the request
//   running    the session is in the engine; tokens are told.
//                end token, max_tokens, Finish -> ended with Ended; MoveTo starts a move (decode_move.h), whose receipt
//                leads to ended with Moved and Ended; another MoveTo gives up the move before. Between Hold and Resume
//                the session pauses, but for a move: it goes on until its last block is sent
//   ended      nothing is held.
// An error of the engine, a command out of order, and OnCancel (the owner went away) lead to `ended` from everywhere.
//
// Invariants:
//   1. What the reservation holds (table entry, receiver, session, move) is let go in the step to `ended`, before the
//      peer is told.
//   2. The engine is started at most once, and never after the end.
//   3. Token `history` precedes all later ones on the stream: it is sent before the engine is started.
//
// Thread-safe: commands come one at a time (RPC threads), publication of KV on the thread of a ReceiveKv call, tokens
// and the end on the compute thread, ticks on the ticker's.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/engine/engine.h"
#include "common/worker/context.h"
#include "common/worker/event_sink.h"
#include "decode_worker/decode_move.h"
#include "decode_worker/reservation.h"
#include "kvrelay/worker/v1/decode.pb.h"

namespace kvrelay::decode_worker {

using worker::v1::DecodeRequest;
using worker::v1::DecodeResponse;
using DecodeSink = worker::EventSink<DecodeResponse>;

class DecodeFlow final : public worker::TickListener, public std::enable_shared_from_this<DecodeFlow> {
 public:
  // Both pointers must outlive the flow.
  DecodeFlow(const worker::WorkerContext* context, ReservationTable* reservations, std::shared_ptr<DecodeSink> sink);

  // A command. False: the call has failed, and no other is wanted. `transport` is used during the call only.
  bool OnRequest(const DecodeRequest& request, kv_wire::KvTransport* transport);
  // The router sends no more commands; the stream goes on if there is one.
  void OnRequestsEnd();
  void OnCancel();
  // The call is over: the sink was told, or broke.
  void OnDone();
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

  absl::Status Handle(const DecodeRequest& request, kv_wire::KvTransport* transport);
  absl::Status OnReserve(const worker::v1::Reserve& reserve);
  absl::Status OnAttempt(const worker::v1::Attempt& attempt);
  absl::Status OnMoveTo(const worker::v1::MoveTo& move, kv_wire::KvTransport* transport);
  absl::Status OnFinish();
  absl::Status OnReader(bool reads);
  absl::Status StartReceiving(const worker::v1::Reserve& reserve, std::shared_ptr<engine::Session> session);
  void OnPublished(const worker::v1::KvCommit& commit, uint32_t received);
  void StartEngine(const std::shared_ptr<engine::Session>& session);

  // From the compute thread.
  void OnBeat(uint64_t beat);
  void OnSelected(const engine::SelectedToken& token);
  void OnHeld();
  void OnEngineEnded(const absl::Status& status, sampling::EndReason reason, const engine::PositionCounts& counts);
  // From the link of a move.
  void OnMoveEnded(uint32_t number, absl::StatusOr<kv_wire::KvTransfer> transfer);

  void SendReserved(const engine::Session& session);
  // Pauses the session or lets it go on, as the move or the reader wants it. REQUIRES: mutex_ is held.
  void HoldOrResume();
  // What is counted when nothing was computed here yet. REQUIRES: mutex_ is held.
  engine::PositionCounts CountsAt(uint32_t ready) const;
  // The two ends. Each does nothing after the first.
  void EndWith(worker::v1::EndReason reason, const engine::PositionCounts& counts,
               std::optional<worker::v1::Moved> moved = std::nullopt);
  void Fail(const absl::Status& status);
  // Steps to `ended` and lets go of everything. False if it was there already.
  bool Release();

  const worker::WorkerContext& context_;
  ReservationTable& reservations_;
  const std::shared_ptr<DecodeSink> sink_;

  std::mutex mutex_;
  bool admitted_ = false;
  Phase phase_ = Phase::kNew;
  bool in_engine_ = false;     // from Start to OnEngineEnded
  bool reader_waits_ = false;  // from Hold to Resume
  uint64_t last_beat_ = 0;
  Held held_;
  RecentTokens recent_;
  engine::PositionCounts counts_;     // at the token selected last, by an own run
  std::shared_ptr<DecodeMove> move_;  // while one is under way
  uint32_t moves_ = 0;                // its number: what others end with comes too late
  // Set once, before the phase leaves kNew.
  sampling::EndRule end_rule_;
  bool computes_prompt_ = false;
  bool logprobs_ = false, trace_ = false;
  worker::v1::Ended ended_;  // filled as the figures become known; compute thread, then the end
};

}  // namespace kvrelay::decode_worker
