// One Prefill call: a job of the engine and, with a handoff, a transfer of its KV. It ends well when both have, and
// badly with the first error of either, which then ends the other.
//
// Invariants:
//   1. What the job holds (session, sender) is let go in the step to `ended_`, before the peer is told.
//   2. The engine is started at most once, and never after the end.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <optional>

#include "common/engine/engine.h"
#include "common/rpc/stream_writer.h"
#include "common/worker/context.h"
#include "kvrelay/worker/v1/prefill.pb.h"
#include "prefill_worker/kv_sender.h"

namespace kvrelay::prefill_worker {

using worker::v1::PrefillRequest;
using worker::v1::PrefillResponse;

class PrefillCall final : public grpc::ServerWriteReactor<PrefillResponse>,
                          public worker::TickListener,
                          public std::enable_shared_from_this<PrefillCall> {
 public:
  // A job has a handful of events; signs of life never wait.
  static constexpr size_t kMaxWaitingEvents = 16;

  // A new call, alive until its OnDone. `request` is used only during Start.
  static PrefillCall* Start(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
                            const KvSender::Shared& senders, const PrefillRequest& request);
  PrefillCall(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context);

  void OnWriteDone(bool ok) override { writer_.OnWriteDone(ok); }
  void OnCancel() override;
  void OnDone() override;
  void OnTick() override;

 private:
  class Listener;

  absl::Status Run(const grpc::CallbackServerContext& call_context, const KvSender::Shared& senders,
                   const PrefillRequest& request);
  PrefillResponse Progress(uint64_t beat, bool queued, uint32_t computed) const;

  // From the compute thread.
  void OnSelected(const engine::SelectedToken& token, const std::shared_ptr<KvSender>& sender);
  void OnEngineEnded(const absl::Status& status, const engine::PositionCounts& counts);
  // From an RPC thread.
  void OnTransferEnded(absl::StatusOr<KvTransfer> transfer);

  void DoneIfBothEnded();
  void Fail(const absl::Status& status);
  // Steps to `ended_` and lets go of everything. False if it was there already.
  bool Release();

  const worker::WorkerContext& context_;
  rpc::StreamWriter<grpc::ServerWriteReactor<PrefillResponse>, PrefillResponse> writer_;
  std::shared_ptr<PrefillCall> self_;  // until OnDone
  // Set in Start, before anybody else knows of the call.
  bool has_handoff_ = false;
  bool logprobs_ = false, trace_ = false;

  std::mutex mutex_;
  bool admitted_ = false;
  bool ended_ = false;
  bool in_engine_ = false;
  uint64_t last_beat_ = 0;
  std::shared_ptr<engine::Session> session_;
  std::shared_ptr<KvSender> sender_;
  std::optional<engine::PositionCounts> engine_counts_;  // once the engine has ended well
  std::optional<KvTransfer> transfer_;                   // once the receipt is there
  worker::v1::PrefillDone done_;                         // filled as the figures become known
};

}  // namespace kvrelay::prefill_worker
