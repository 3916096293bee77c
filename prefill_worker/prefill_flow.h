// One Prefill call, without gRPC: a job of the engine and, with a handoff, a transfer of its KV. It ends well when both
// have, and badly with the first error of either, which then ends the other.
//
// States:
//   new       nothing is held.                                       Start -> working, or ended with a refusal
//   working   the session is in the engine; with a handoff the sender ships what is ready.
//             token selected: told, and given to the sender as its commit
//             engine ended -> shipping (or ended, if nothing is shipped); an error of either -> ended
//   shipping  the engine is done, the receipt is awaited; the session's KV stays until it is there.
//             receipt -> ended with PrefillDone; an error of the link -> ended with it
//   ended     nothing is held.
// OnCancel (the owner went away) leads to `ended` from everywhere.
//
// Invariants:
//   1. What the job holds (session, sender) is let go in the step to `ended`, before the peer is told.
//   2. The engine is started at most once, and never after the end.
//
// Thread-safe: RPC threads, the compute thread and the ticker come.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "common/engine/engine.h"
#include "common/kv_wire/kv_sender.h"
#include "common/worker/context.h"
#include "common/worker/event_sink.h"
#include "kvrelay/worker/v1/prefill.pb.h"

namespace kvrelay::prefill_worker {

using worker::v1::PrefillRequest;
using worker::v1::PrefillResponse;
using PrefillSink = worker::EventSink<PrefillResponse>;

class PrefillFlow final : public worker::TickListener, public std::enable_shared_from_this<PrefillFlow> {
 public:
  // `context` must outlive the flow.
  PrefillFlow(const worker::WorkerContext* context, std::shared_ptr<PrefillSink> sink);

  // Checks, takes room and starts. REQUIRES: called once, before all others but OnCancel. `transport` is used during
  // the call only.
  void Start(const PrefillRequest& request, kv_wire::KvTransport* transport);
  void OnCancel();
  // The call is over: the sink was told, or broke.
  void OnDone();
  void OnTick() override;

 private:
  class Listener;

  absl::Status Run(const PrefillRequest& request, kv_wire::KvTransport* transport);
  std::shared_ptr<kv_wire::KvSender> StartSender(const PrefillRequest& request, const engine::Session& session,
                                                 kv_wire::KvTransport* transport);
  PrefillResponse Progress(uint64_t beat, bool queued, uint32_t computed) const;

  // From the compute thread.
  void OnBeat(uint64_t beat, bool queued, uint32_t computed);
  void OnSelected(const engine::SelectedToken& token, const std::shared_ptr<kv_wire::KvSender>& sender);
  void OnEngineEnded(const absl::Status& status, const engine::PositionCounts& counts);
  // From the link.
  void OnTransferEnded(absl::StatusOr<kv_wire::KvTransfer> transfer);

  void DoneIfBothEnded();
  void Fail(const absl::Status& status);
  // Steps to `ended` and lets go of everything. False if it was there already.
  bool Release();

  const worker::WorkerContext& context_;
  const std::shared_ptr<PrefillSink> sink_;
  // Set in Start, before anybody else knows of the flow.
  bool has_handoff_ = false;
  bool logprobs_ = false, trace_ = false;
  int end_position_ = 0;

  std::mutex mutex_;
  bool admitted_ = false;
  bool ended_ = false;
  bool in_engine_ = false;
  bool budgeted_ = false;                  // prompt tokens are taken
  absl::Duration taken_at_, reserved_at_;  // set once, before the engine knows of the job
  uint64_t last_beat_ = 0;
  std::shared_ptr<engine::Session> session_;
  std::shared_ptr<kv_wire::KvSender> sender_;
  std::optional<engine::PositionCounts> engine_counts_;  // once the engine has ended well
  std::optional<kv_wire::KvTransfer> transfer_;          // once the receipt is there
  worker::v1::PrefillDone done_;                         // filled as the figures become known
};

}  // namespace kvrelay::prefill_worker
