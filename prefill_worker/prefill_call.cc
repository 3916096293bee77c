#include "prefill_worker/prefill_call.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/duration.h"
#include "common/rpc/server.h"
#include "common/rpc/status_mapping.h"
#include "common/worker/convert.h"
#include "common/worker/spec.h"

namespace kvrelay::prefill_worker {
namespace {

using worker::v1::Handoff;

constexpr absl::Duration kRetryAfter = absl::Seconds(1);

absl::Status CheckHandoff(const PrefillRequest& request) {
  if (!request.has_handoff()) {
    if (request.first_position() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError("first_position without a handoff has no meaning");
  }
  const Handoff& handoff = request.handoff();
  KV_RETURN_IF_ERROR(worker::CheckHandoffId(handoff.handoff_id()));
  if (handoff.attempt() == 0) return absl::InvalidArgumentError("handoff.attempt is 0; attempts count from 1");
  constexpr size_t kMaxInstanceBytes = 256;
  if (handoff.decode_instance().size() > kMaxInstanceBytes) {
    return absl::InvalidArgumentError(absl::StrCat("handoff.decode_instance has ", handoff.decode_instance().size(),
                                                   " bytes, more than ", kMaxInstanceBytes));
  }
  KV_ASSIGN_OR_RETURN(const rpc::HostPort address, rpc::ParseHostPort(handoff.kv_address()));
  if (address.port == 0) return absl::InvalidArgumentError("handoff.kv_address has port 0");
  if (request.first_position() >= static_cast<uint64_t>(request.spec().token_ids_size())) {
    return absl::InvalidArgumentError(absl::StrCat("first_position is ", request.first_position(),
                                                   ", the prompt ends at ", request.spec().token_ids_size()));
  }
  return absl::OkStatus();
}

}  // namespace

// Keeps the call and its sender alive as long as the engine may speak to them.
class PrefillCall::Listener final : public engine::SessionListener {
 public:
  Listener(std::shared_ptr<PrefillCall> call, std::shared_ptr<KvSender> sender)
      : call_(std::move(call)), sender_(std::move(sender)) {}

  void OnBeat(uint64_t beat, bool queued, uint32_t computed) override {
    call_->writer_.PushIfIdle(call_->Progress(beat, queued, computed));
  }
  void OnLayer(int layer, int first, int end, bool last_chunk) override {
    if (sender_ != nullptr) sender_->OnLayer(layer, end, last_chunk);
  }
  void OnSelected(const engine::SelectedToken& token) override { call_->OnSelected(token, sender_); }
  void OnEnded(const absl::Status& status, sampling::EndReason reason, const engine::PositionCounts& counts) override {
    sender_.reset();
    call_->OnEngineEnded(status, counts);
  }

 private:
  const std::shared_ptr<PrefillCall> call_;
  std::shared_ptr<KvSender> sender_;  // null: nothing is shipped
};

PrefillCall* PrefillCall::Start(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
                                const KvSender::Shared& senders, const PrefillRequest& request) {
  auto call = std::make_shared<PrefillCall>(call_context, context);
  call->self_ = call;
  if (const absl::Status status = call->Run(*call_context, senders, request); !status.ok()) call->Fail(status);
  return call.get();
}

PrefillCall::PrefillCall(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context)
    : context_(*context), writer_(this, kMaxWaitingEvents, [call_context] { call_context->TryCancel(); }) {}

absl::Status PrefillCall::Run(const grpc::CallbackServerContext& call_context, const KvSender::Shared& senders,
                              const PrefillRequest& request) {
  KV_RETURN_IF_ERROR(context_.calls->Enter());
  {
    std::lock_guard lock(mutex_);
    admitted_ = true;
  }
  KV_RETURN_IF_ERROR(CheckHandoff(request));
  KV_ASSIGN_OR_RETURN(engine::SessionSpec spec, worker::ParseSpec(request.spec(), context_));
  spec.source = engine::KvSource::kComputed;
  spec.stop_after_first = true;
  has_handoff_ = request.has_handoff();
  logprobs_ = request.spec().logprobs() > 0;
  trace_ = request.spec().trace();
  const int end_position = static_cast<int>(spec.tokens.size());
  absl::StatusOr<std::shared_ptr<engine::Session>> session = context_.engine->Reserve(std::move(spec));
  if (absl::IsResourceExhausted(session.status())) return rpc::WithRetryDelay(session.status(), kRetryAfter);
  KV_RETURN_IF_ERROR(session.status());

  writer_.Push(Progress(context_.engine->Load().beat, /*queued=*/true, /*computed=*/0));
  std::shared_ptr<KvSender> sender;
  if (has_handoff_) {
    sender = KvSender::Start(senders, call_context, (*session)->cache(), static_cast<int>(request.first_position()),
                             end_position, request.handoff(),
                             [call = shared_from_this()](absl::StatusOr<KvTransfer> transfer) {
                               call->OnTransferEnded(std::move(transfer));
                             });
  }
  context_.ticker->Add(weak_from_this());
  std::unique_lock lock(mutex_);
  if (ended_) {  // the receiver could not be reached, or the owner has gone
    lock.unlock();
    if (sender != nullptr) sender->Cancel();
    return absl::OkStatus();
  }
  session_ = *session;
  sender_ = sender;
  in_engine_ = true;
  context_.engine->Start(*session, std::make_shared<Listener>(shared_from_this(), std::move(sender)));
  return absl::OkStatus();
}

PrefillResponse PrefillCall::Progress(uint64_t beat, bool queued, uint32_t computed) const {
  PrefillResponse response;
  worker::v1::PrefillProgress& progress = *response.mutable_progress();
  *progress.mutable_identity() = context_.identity;
  progress.set_computed(computed);
  progress.set_beat(beat);
  progress.set_queued(queued);
  return response;
}

void PrefillCall::OnSelected(const engine::SelectedToken& token, const std::shared_ptr<KvSender>& sender) {
  PrefillResponse response;
  *response.mutable_selected() = worker::ToProto(token, logprobs_, trace_);
  if (sender != nullptr) {
    worker::v1::KvCommit commit;
    *commit.add_selected() = response.selected();
    commit.set_ends_request(token.end != sampling::EndReason::kNone);
    *commit.mutable_positions() = worker::ToProto(token.counts);
    sender->Commit(std::move(commit));
  }
  {
    std::lock_guard lock(mutex_);
    *done_.mutable_queue() = rpc::ToProto(token.run.start);
    *done_.mutable_prefill() = rpc::ToProto(token.run.duration);
  }
  writer_.Push(std::move(response));
}

void PrefillCall::OnEngineEnded(const absl::Status& status, const engine::PositionCounts& counts) {
  {
    std::lock_guard lock(mutex_);
    in_engine_ = false;
    engine_counts_ = counts;
  }
  if (!status.ok()) return Fail(status);
  DoneIfBothEnded();
}

void PrefillCall::OnTransferEnded(absl::StatusOr<KvTransfer> transfer) {
  if (!transfer.ok()) return Fail(transfer.status());
  {
    std::lock_guard lock(mutex_);
    transfer_ = *std::move(transfer);
  }
  DoneIfBothEnded();
}

void PrefillCall::DoneIfBothEnded() {
  PrefillResponse response;
  {
    std::lock_guard lock(mutex_);
    if (!engine_counts_.has_value() || (has_handoff_ && !transfer_.has_value())) return;
    worker::v1::PrefillDone& done = *response.mutable_done() = done_;
    if (transfer_.has_value()) {
      // A duplicate was published by another attempt: nothing of ours was taken.
      engine_counts_->shipped = transfer_->receipt.duplicate() ? 0 : transfer_->receipt.received();
      done.set_bytes_shipped(transfer_->bytes_written);
      *done.mutable_transfer() = rpc::ToProto(transfer_->duration);
      *done.mutable_transfer_hidden() = rpc::ToProto(transfer_->hidden);
      done.set_bytes_before_last_layer(transfer_->bytes_before_last_layer);
      done.set_first_frame_layer(transfer_->first_frame_layer);
    }
    *done.mutable_positions() = worker::ToProto(*engine_counts_);
  }
  if (!Release()) return;
  observability::LogInfo("prefill_done", {{"computed", response.done().positions().computed()},
                                          {"shipped", response.done().positions().shipped()},
                                          {"bytes_shipped", response.done().bytes_shipped()}});
  writer_.Push(std::move(response));
  writer_.FinishAfterQueue(grpc::Status::OK);
}

// Between the engine's end and the receipt the engine has no session to speak of, so its beat is read; if it stands
// still, nothing is sent.
void PrefillCall::OnTick() {
  const uint64_t beat = context_.engine->Load().beat;
  uint64_t computed = 0;
  {
    std::lock_guard lock(mutex_);
    if (ended_ || !engine_counts_.has_value() || beat == last_beat_) return;
    last_beat_ = beat;
    computed = engine_counts_->computed;
  }
  writer_.PushIfIdle(Progress(beat, /*queued=*/false, static_cast<uint32_t>(computed)));
}

void PrefillCall::OnCancel() { Fail(absl::CancelledError("the owner of the job has ended")); }

void PrefillCall::OnDone() {
  bool admitted;
  {
    std::lock_guard lock(mutex_);
    admitted = admitted_;
  }
  if (admitted) context_.calls->Leave();
  self_.reset();
}

void PrefillCall::Fail(const absl::Status& status) {
  if (!Release()) return;
  if (!absl::IsCancelled(status)) {
    observability::LogWarning("prefill_failed", {{"code", absl::StatusCodeToString(status.code())},
                                                 {"message", std::string(status.message())}});
  }
  writer_.FinishNow(rpc::ToGrpc(status));
}

bool PrefillCall::Release() {
  std::shared_ptr<engine::Session> session;
  std::shared_ptr<KvSender> sender;
  bool in_engine;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return false;
    in_engine = in_engine_;
    session = std::exchange(session_, nullptr);
    sender = std::exchange(sender_, nullptr);
  }
  if (sender != nullptr) sender->Cancel();
  if (in_engine) context_.engine->Stop(session, sampling::EndReason::kNone);
  return true;
}

}  // namespace kvrelay::prefill_worker
