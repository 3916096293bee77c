#include "prefill_worker/prefill_flow.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/planted_bug.h"
#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/duration.h"
#include "common/rpc/host_port.h"
#include "common/worker/convert.h"
#include "common/worker/spec.h"

namespace kvrelay::prefill_worker {
namespace {

using kv_wire::KvSender;
using kv_wire::KvTransfer;
using worker::v1::Handoff;

absl::Status CheckHandoff(const PrefillRequest& request) {
  if (!request.has_handoff()) {
    if (request.first_position() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError("first_position without a handoff has no meaning");
  }
  const Handoff& handoff = request.handoff();
  KV_RETURN_IF_ERROR(worker::CheckHandoffId(handoff.handoff_id()));
  if (handoff.attempt() == 0) return absl::InvalidArgumentError("handoff.attempt is 0; attempts count from 1");
  KV_RETURN_IF_ERROR(worker::CheckKvTarget(handoff.kv_address(), handoff.decode_instance()));
  if (request.first_position() >= static_cast<uint64_t>(request.spec().token_ids_size())) {
    return absl::InvalidArgumentError(absl::StrCat("first_position is ", request.first_position(),
                                                   ", the prompt ends at ", request.spec().token_ids_size()));
  }
  return absl::OkStatus();
}

// Times are counted from `since`, as those of the run.
void AddShipments(const std::vector<kv_wire::Shipment>& shipments, absl::Duration since,
                  worker::v1::PrefillDone* done) {
  for (const kv_wire::Shipment& shipment : shipments) {
    worker::v1::Shipment& proto = *done->add_shipments();
    proto.set_layer(static_cast<uint32_t>(shipment.layer));
    proto.set_first_position(static_cast<uint32_t>(shipment.first_position));
    proto.set_end_position(static_cast<uint32_t>(shipment.end_position));
    *proto.mutable_start() = rpc::ToProto(shipment.began - since);
    *proto.mutable_duration() = rpc::ToProto(shipment.ended - shipment.began);
    proto.set_bytes(shipment.bytes);
  }
}

}  // namespace

// Keeps the flow and its sender alive as long as the engine may speak to them.
class PrefillFlow::Listener final : public engine::SessionListener {
 public:
  Listener(std::shared_ptr<PrefillFlow> flow, std::shared_ptr<KvSender> sender)
      : flow_(std::move(flow)), sender_(std::move(sender)) {}

  void OnBeat(uint64_t beat, bool queued, uint32_t computed) override { flow_->OnBeat(beat, queued, computed); }
  void OnLayer(int layer, int first, int end, bool last_chunk) override {
    if (sender_ != nullptr) sender_->OnLayer(layer, end, last_chunk);
  }
  void OnSelected(const engine::SelectedToken& token) override { flow_->OnSelected(token, sender_); }
  void OnEnded(const absl::Status& status, sampling::EndReason reason, const engine::PositionCounts& counts) override {
    sender_.reset();
    flow_->OnEngineEnded(status, counts);
  }

 private:
  const std::shared_ptr<PrefillFlow> flow_;
  std::shared_ptr<KvSender> sender_;  // null: nothing is shipped
};

PrefillFlow::PrefillFlow(const worker::WorkerContext* context, std::shared_ptr<PrefillSink> sink)
    : context_(*context), sink_(std::move(sink)) {}

void PrefillFlow::Start(const PrefillRequest& request, kv_wire::KvTransport* transport) {
  if (const absl::Status status = Run(request, transport); !status.ok()) Fail(status);
}

absl::Status PrefillFlow::Run(const PrefillRequest& request, kv_wire::KvTransport* transport) {
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
  end_position_ = static_cast<int>(spec.tokens.size());
  KV_RETURN_IF_ERROR(context_.prompt_tokens->Take(end_position_));
  {
    std::lock_guard lock(mutex_);
    budgeted_ = true;
    taken_at_ = context_.clock->Now();
  }
  KV_ASSIGN_OR_RETURN(const std::shared_ptr<engine::Session> session, context_.engine->Reserve(std::move(spec)));

  sink_->Send(Progress(context_.engine->Load().beat, /*queued=*/true, /*computed=*/0));
  std::shared_ptr<KvSender> sender;
  if (has_handoff_) {
    sender = StartSender(request, *session, transport);
    sender->OnPositions(session->cache()->reused());  // goes out while the rest is computed
  }
  context_.ticker->Add(weak_from_this());
  std::unique_lock lock(mutex_);
  if (ended_) {  // the receiver could not be reached, or the owner has gone
    lock.unlock();
    if (sender != nullptr) sender->Cancel();
    return absl::OkStatus();
  }
  session_ = session;
  reserved_at_ = session->reserved_at();
  sender_ = sender;
  in_engine_ = true;
  context_.engine->Start(session, std::make_shared<Listener>(shared_from_this(), std::move(sender)));
  return absl::OkStatus();
}

std::shared_ptr<KvSender> PrefillFlow::StartSender(const PrefillRequest& request, const engine::Session& session,
                                                   kv_wire::KvTransport* transport) {
  const Handoff& handoff = request.handoff();
  return KvSender::Start(
      {.transport = transport,
       .tasks = context_.tasks,
       .budget = context_.kv_in_flight,
       .clock = context_.clock,
       .identity = &context_.identity},
      session.cache(), static_cast<int>(request.first_position()), end_position_,
      {.handoff_id = handoff.handoff_id(),
       .attempt = handoff.attempt(),
       .address = handoff.kv_address(),
       .instance = handoff.decode_instance()},
      [flow = shared_from_this()](absl::StatusOr<KvTransfer> transfer) { flow->OnTransferEnded(std::move(transfer)); });
}

PrefillResponse PrefillFlow::Progress(uint64_t beat, bool queued, uint32_t computed) const {
  PrefillResponse response;
  worker::v1::PrefillProgress& progress = *response.mutable_progress();
  *progress.mutable_identity() = context_.identity;
  progress.set_computed(computed);
  progress.set_beat(beat);
  progress.set_queued(queued);
  return response;
}

// A job that has not begun when the worker drains is handed back: another worker computes it sooner.
void PrefillFlow::OnBeat(uint64_t beat, bool queued, uint32_t computed) {
  if (queued && context_.calls->draining()) {
    return Fail(absl::UnavailableError("the worker is draining; the job had not begun"));
  }
  if (const absl::Duration waited = context_.clock->Now() - taken_at_; queued && waited > context_.queue_timeout) {
    return Fail(absl::ResourceExhaustedError(
        absl::StrCat("the job waited ", absl::FormatDuration(waited), " in the queue of this worker")));
  }
  sink_->SendIfIdle(Progress(beat, queued, computed));
}

void PrefillFlow::OnSelected(const engine::SelectedToken& token, const std::shared_ptr<KvSender>& sender) {
  PrefillResponse response;
  *response.mutable_selected() = worker::ToProto(token, logprobs_, trace_);
  if (sender != nullptr) {
    worker::v1::KvCommit commit;
    *commit.add_selected() = response.selected();
    commit.set_ends_request(token.end != sampling::EndReason::kNone);
    *commit.mutable_positions() = worker::ToProto(token.counts);
    sender->Commit(end_position_, std::move(commit));
  }
  {
    std::lock_guard lock(mutex_);
    *done_.mutable_queue() = rpc::ToProto(token.run.start);
    *done_.mutable_prefill() = rpc::ToProto(token.run.duration);
  }
  sink_->Send(std::move(response));
}

void PrefillFlow::OnEngineEnded(const absl::Status& status, const engine::PositionCounts& counts) {
  {
    std::lock_guard lock(mutex_);
    in_engine_ = false;
    engine_counts_ = counts;
  }
  if (!status.ok()) return Fail(status);
  DoneIfBothEnded();
}

void PrefillFlow::OnTransferEnded(absl::StatusOr<KvTransfer> transfer) {
  if (!transfer.ok()) return Fail(transfer.status());
  {
    std::lock_guard lock(mutex_);
    transfer_ = *std::move(transfer);
  }
  DoneIfBothEnded();
}

void PrefillFlow::DoneIfBothEnded() {
  PrefillResponse response;
  {
    std::lock_guard lock(mutex_);
    const bool awaits_receipt = has_handoff_ && !transfer_.has_value() && !KV_PLANTED(free_before_receipt);
    if (!engine_counts_.has_value() || awaits_receipt) return;
    worker::v1::PrefillDone& done = *response.mutable_done() = done_;
    if (transfer_.has_value()) {
      // A duplicate was published by another attempt: nothing of ours was taken.
      engine_counts_->shipped = transfer_->receipt.duplicate() ? 0 : transfer_->receipt.received();
      done.set_bytes_shipped(transfer_->bytes_written);
      *done.mutable_transfer() = rpc::ToProto(transfer_->duration);
      *done.mutable_transfer_hidden() = rpc::ToProto(transfer_->hidden);
      done.set_bytes_before_last_layer(transfer_->bytes_before_last_layer);
      done.set_first_frame_layer(transfer_->first_frame_layer);
      if (trace_) AddShipments(transfer_->shipments, reserved_at_, &done);
    }
    *done.mutable_positions() = worker::ToProto(*engine_counts_);
  }
  if (!Release()) return;
  observability::LogInfo("prefill_done", {{"computed", response.done().positions().computed()},
                                          {"shipped", response.done().positions().shipped()},
                                          {"bytes_shipped", response.done().bytes_shipped()}});
  sink_->Send(std::move(response));
  sink_->End();
}

// Between the engine's end and the receipt the engine has no session to speak of, so its beat is read; if it stands
// still, nothing is sent.
void PrefillFlow::OnTick() {
  const uint64_t beat = context_.engine->Load().beat;
  uint64_t computed = 0;
  {
    std::lock_guard lock(mutex_);
    if (ended_ || !engine_counts_.has_value() || beat == last_beat_) return;
    last_beat_ = beat;
    computed = engine_counts_->computed;
  }
  sink_->SendIfIdle(Progress(beat, /*queued=*/false, static_cast<uint32_t>(computed)));
}

void PrefillFlow::OnCancel() { Fail(absl::CancelledError("the owner of the job has ended")); }

void PrefillFlow::OnDone() {
  bool admitted;
  {
    std::lock_guard lock(mutex_);
    admitted = std::exchange(admitted_, false);
  }
  if (admitted) context_.calls->Leave();
}

void PrefillFlow::Fail(const absl::Status& status) {
  if (!Release()) return;
  if (!absl::IsCancelled(status)) {
    observability::LogWarning("prefill_failed", {{"code", absl::StatusCodeToString(status.code())},
                                                 {"message", std::string(status.message())}});
  }
  sink_->Fail(status);
}

bool PrefillFlow::Release() {
  std::shared_ptr<engine::Session> session;
  std::shared_ptr<KvSender> sender;
  bool in_engine, budgeted;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return false;
    in_engine = in_engine_;
    session = std::exchange(session_, nullptr);
    sender = std::exchange(sender_, nullptr);
    budgeted = std::exchange(budgeted_, false);
  }
  if (budgeted) context_.prompt_tokens->Give(end_position_);
  if (sender != nullptr) sender->Cancel();
  if (in_engine) context_.engine->Stop(session, sampling::EndReason::kNone);
  return true;
}

}  // namespace kvrelay::prefill_worker
