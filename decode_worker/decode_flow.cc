#include "decode_worker/decode_flow.h"

#include <algorithm>
#include <utility>

#include "common/base/planted_bug.h"
#include "common/base/status_macros.h"
#include "common/engine/validate.h"
#include "common/observability/log.h"
#include "common/rpc/duration.h"
#include "common/worker/convert.h"
#include "common/worker/spec.h"

namespace kvrelay::decode_worker {
namespace {

using kv_wire::KvSender;
using worker::v1::KvCommit;
using worker::v1::Reserve;

absl::StatusOr<engine::KvSource> ParseSource(worker::v1::Source source) {
  switch (source) {
    case worker::v1::SOURCE_RECEIVED:
    case worker::v1::SOURCE_MOVED:
      return engine::KvSource::kReceived;
    case worker::v1::SOURCE_COMPUTED:
      return engine::KvSource::kComputed;
    case worker::v1::SOURCE_NO_CACHE:
      return engine::KvSource::kNoCache;
    default:
      return absl::InvalidArgumentError("source is not set to a known value");
  }
}

}  // namespace

// Keeps the flow alive as long as the engine may speak to it.
class DecodeFlow::Listener final : public engine::SessionListener {
 public:
  explicit Listener(std::shared_ptr<DecodeFlow> flow) : flow_(std::move(flow)) {}
  void OnBeat(uint64_t beat, bool queued, uint32_t computed) override { flow_->OnBeat(beat); }
  void OnSelected(const engine::SelectedToken& token) override { flow_->OnSelected(token); }
  void OnHeld() override { flow_->OnHeld(); }
  void OnEnded(const absl::Status& status, sampling::EndReason reason, const engine::PositionCounts& counts) override {
    flow_->OnEngineEnded(status, reason, counts);
  }

 private:
  const std::shared_ptr<DecodeFlow> flow_;
};

DecodeFlow::DecodeFlow(const worker::WorkerContext* context, ReservationTable* reservations,
                       std::shared_ptr<DecodeSink> sink)
    : context_(*context), reservations_(*reservations), sink_(std::move(sink)) {}

bool DecodeFlow::OnRequest(const DecodeRequest& request, kv_wire::KvTransport* transport) {
  const absl::Status status = Handle(request, transport);
  if (!status.ok()) Fail(status);
  return status.ok();
}

void DecodeFlow::OnRequestsEnd() {
  bool empty;
  {
    std::lock_guard lock(mutex_);
    empty = phase_ == Phase::kNew;
  }
  if (empty) Fail(absl::InvalidArgumentError("the call ended its commands without a Reserve"));
}

void DecodeFlow::OnCancel() { Fail(absl::CancelledError("the owner of the reservation has ended")); }

void DecodeFlow::OnDone() {
  bool admitted;
  {
    std::lock_guard lock(mutex_);
    admitted = std::exchange(admitted_, false);
  }
  if (admitted) context_.calls->Leave();
}

absl::Status DecodeFlow::Handle(const DecodeRequest& request, kv_wire::KvTransport* transport) {
  switch (request.command_case()) {
    case DecodeRequest::kReserve:
      return OnReserve(request.reserve());
    case DecodeRequest::kAttempt:
      return OnAttempt(request.attempt());
    case DecodeRequest::kMoveTo:
      return OnMoveTo(request.move_to(), transport);
    case DecodeRequest::kFinish:
      return OnFinish();
    case DecodeRequest::kHold:
      return OnReader(/*reads=*/false);
    case DecodeRequest::kResume:
      return OnReader(/*reads=*/true);
    case DecodeRequest::COMMAND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message has no known command");
}

absl::Status DecodeFlow::OnReserve(const Reserve& reserve) {
  {
    std::lock_guard lock(mutex_);
    if (admitted_ || phase_ != Phase::kNew) return absl::InvalidArgumentError("Reserve comes once, and first");
    KV_RETURN_IF_ERROR(context_.calls->Enter());
    admitted_ = true;
  }
  KV_RETURN_IF_ERROR(worker::CheckHandoffId(reserve.handoff_id()));
  KV_ASSIGN_OR_RETURN(engine::SessionSpec spec, worker::ParseSpec(reserve.spec(), context_));
  KV_ASSIGN_OR_RETURN(spec.source, ParseSource(reserve.source()));
  const bool receives = spec.source == engine::KvSource::kReceived;
  if (receives) KV_RETURN_IF_ERROR(worker::CheckInstance("sender_instance", reserve.sender_instance()));
  end_rule_ = spec.end_rule;
  logprobs_ = reserve.spec().logprobs() > 0;
  trace_ = reserve.spec().trace();
  computes_prompt_ = !receives;
  KV_ASSIGN_OR_RETURN(std::shared_ptr<engine::Session> session, context_.engine->Reserve(std::move(spec)));
  if (receives) return StartReceiving(reserve, std::move(session));
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kNew) return absl::OkStatus();
    phase_ = Phase::kRunning;
    held_.session = session;
    SendReserved(*session);
  }
  StartEngine(session);
  return absl::OkStatus();
}

absl::Status DecodeFlow::StartReceiving(const Reserve& reserve, std::shared_ptr<engine::Session> session) {
  const engine::SessionSpec& spec = session->spec();
  const int tokens = static_cast<int>(spec.tokens.size());
  kv_wire::HandoffExpectation expected{
      .handoff_id = reserve.handoff_id(),
      .model_fingerprint = context_.identity.model_fingerprint(),
      .numerics_id = context_.identity.numerics_id(),
      .first_position = session->cache()->reused(),
      .tokens = tokens,
      .max_end_position = reserve.source() == worker::v1::SOURCE_MOVED ? engine::PositionsNeeded(spec) : tokens,
      .first_index = static_cast<uint32_t>(spec.tokens.size()) - spec.prompt_length,
      .vocabulary = static_cast<uint32_t>(context_.vocabulary),
      .logprobs = spec.logprobs,
      .ends_request = [rule = spec.end_rule](uint32_t index, uint32_t token) {
        return sampling::EndsRequest(rule, index + 1, static_cast<int32_t>(token)) != sampling::EndReason::kNone;
      }};
  auto receiver = std::make_unique<kv_wire::HandoffReceiver>(session->cache(), std::move(expected), context_.clock);
  // Weak: the table must not keep a flow alive.
  auto reservation = std::make_shared<Reservation>(
      std::move(receiver), [weak = weak_from_this()](const KvCommit& commit, const kv_wire::HandoffReceipt& receipt) {
        if (const auto flow = weak.lock()) flow->OnPublished(commit, receipt.received);
      });
  KV_RETURN_IF_ERROR(reservation->OpenAttempt(1, reserve.sender_instance()).status());
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kNew) return absl::OkStatus();
    KV_RETURN_IF_ERROR(reservations_.Add(reserve.handoff_id(), reservation));
    phase_ = Phase::kReceiving;
    held_ = {reserve.handoff_id(), std::move(reservation), std::move(session)};
    SendReserved(*held_.session);
  }
  context_.ticker->Add(weak_from_this());
  return absl::OkStatus();
}

void DecodeFlow::SendReserved(const engine::Session& session) {
  DecodeResponse response;
  worker::v1::Reserved& reserved = *response.mutable_reserved();
  *reserved.mutable_identity() = context_.identity;
  reserved.set_kv_address(context_.kv_address);
  reserved.set_positions_held(session.cache()->reused());
  sink_->Send(std::move(response));
}

absl::Status DecodeFlow::OnAttempt(const worker::v1::Attempt& attempt) {
  KV_RETURN_IF_ERROR(worker::CheckInstance("sender_instance", attempt.sender_instance()));
  std::shared_ptr<Reservation> reservation;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kEnded) return absl::OkStatus();
    reservation = held_.reservation;
  }
  if (reservation == nullptr) return absl::InvalidArgumentError("Attempt needs a Reserve with SOURCE_RECEIVED first");
  const absl::StatusOr<uint32_t> winner = reservation->OpenAttempt(attempt.attempt(), attempt.sender_instance());
  if (absl::IsCancelled(winner.status())) return absl::OkStatus();  // ended meanwhile; the end says so
  KV_RETURN_IF_ERROR(winner.status());
  DecodeResponse response;
  if (*winner == 0) {
    response.mutable_attempt_open()->set_attempt(attempt.attempt());
  } else {
    response.mutable_committed()->set_winner(*winner);
  }
  sink_->Send(std::move(response));
  return absl::OkStatus();
}

absl::Status DecodeFlow::OnFinish() {
  engine::PositionCounts counts;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kNew) return absl::InvalidArgumentError("Finish needs a Reserve first");
    if (phase_ == Phase::kEnded) return absl::OkStatus();
    if (in_engine_) {
      context_.engine->Stop(held_.session, sampling::EndReason::kFinishedByRouter);
      return absl::OkStatus();
    }
    counts = CountsAt(held_.session->cache()->kv_ready());
  }
  EndWith(worker::v1::END_REASON_FINISHED_BY_ROUTER, counts);
  return absl::OkStatus();
}

engine::PositionCounts DecodeFlow::CountsAt(uint32_t ready) const {
  engine::PositionCounts counts;
  counts.reused = held_.session->cache()->reused();
  counts.received = ready - counts.reused;
  counts.kv_ready = ready;
  return counts;
}

void DecodeFlow::OnPublished(const KvCommit& commit, uint32_t received) {
  // Each token was selected with the KV of all before it.
  engine::PositionCounts counts;
  auto end = sampling::EndReason::kNone;
  std::shared_ptr<engine::Session> session;
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kReceiving) return;
    phase_ = Phase::kRunning;
    session = held_.session;
    counts = CountsAt(session->cache()->reused() + received - static_cast<uint32_t>(commit.selected_size()));
    std::vector<int32_t> tokens;
    for (const worker::v1::Selected& selected : commit.selected()) {
      ++counts.received, ++counts.kv_ready;
      DecodeResponse response;
      worker::v1::Selected& copy = *response.mutable_selected() = selected;
      end = sampling::EndsRequest(end_rule_, selected.index() + 1, static_cast<int32_t>(selected.token_id()));
      copy.set_end(worker::ToProto(end));
      *copy.mutable_positions() = worker::ToProto(counts);
      copy.clear_run();  // a run of the sender, which reports it itself
      tokens.push_back(static_cast<int32_t>(selected.token_id()));
      recent_.Add(copy);
      sink_->Send(std::move(response));
    }
    session->SetReceived(std::move(tokens));
  }
  if (end != sampling::EndReason::kNone && !KV_PLANTED(end_at_commit_missed))
    return EndWith(worker::ToProto(end), counts);
  StartEngine(session);
}

void DecodeFlow::StartEngine(const std::shared_ptr<engine::Session>& session) {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::kRunning) return;  // ended meanwhile
  in_engine_ = true;
  context_.engine->Start(session, std::make_shared<Listener>(shared_from_this()));
  HoldOrResume();
}

absl::Status DecodeFlow::OnReader(bool reads) {
  std::lock_guard lock(mutex_);
  if (phase_ == Phase::kNew) return absl::InvalidArgumentError("Hold and Resume need a Reserve first");
  reader_waits_ = !reads;
  HoldOrResume();
  return absl::OkStatus();
}

void DecodeFlow::HoldOrResume() {
  if (!in_engine_ || phase_ != Phase::kRunning) return;
  const bool hold = move_ != nullptr ? move_->pauses() : reader_waits_;
  if (hold) return context_.engine->Hold(held_.session);
  if (!KV_PLANTED(held_forever)) context_.engine->Resume(held_.session);
}

void DecodeFlow::OnBeat(uint64_t beat) {
  DecodeResponse response;
  response.mutable_heartbeat()->set_beat(beat);
  sink_->SendIfIdle(std::move(response));
}

// While KV is awaited the engine has no session to speak of, so its beat is read; if it stands still, nothing is sent.
void DecodeFlow::OnTick() {
  const uint64_t beat = context_.engine->Load().beat;
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kReceiving || beat == last_beat_) return;
    last_beat_ = beat;
  }
  OnBeat(beat);
}

void DecodeFlow::OnSelected(const engine::SelectedToken& token) {
  DecodeResponse response;
  *response.mutable_selected() = worker::ToProto(token, logprobs_, trace_);
  {
    std::lock_guard lock(mutex_);
    if (computes_prompt_ && !ended_.has_queue()) {
      *ended_.mutable_queue() = rpc::ToProto(token.run.start);
      *ended_.mutable_prefill() = rpc::ToProto(token.run.duration);
    }
    ended_.set_rows_per_step_max(std::max(ended_.rows_per_step_max(), token.run.rows_in_step_max));
    recent_.Add(response.selected());
    counts_ = token.counts;
    if (move_ != nullptr) {
      const uint32_t history = held_.session->spec().prompt_length + token.index + 1;
      if (move_->OnSelected(history, static_cast<int>(token.counts.kv_ready))) HoldOrResume();
    }
  }
  sink_->Send(std::move(response));
}

void DecodeFlow::OnEngineEnded(const absl::Status& status, sampling::EndReason reason,
                               const engine::PositionCounts& counts) {
  {
    std::lock_guard lock(mutex_);
    in_engine_ = false;
  }
  if (!status.ok()) return Fail(status);
  EndWith(worker::ToProto(reason), counts);
}

// ---- The ends ----

void DecodeFlow::EndWith(worker::v1::EndReason reason, const engine::PositionCounts& counts,
                         std::optional<worker::v1::Moved> moved) {
  if (!Release()) return;
  if (moved) {
    DecodeResponse response;
    *response.mutable_moved() = *std::move(moved);
    sink_->Send(std::move(response));
  }
  DecodeResponse response;
  worker::v1::Ended& ended = *response.mutable_ended() = std::move(ended_);
  ended.set_reason(reason);
  *ended.mutable_positions() = worker::ToProto(counts);
  sink_->Send(std::move(response));
  sink_->End();
  observability::LogInfo("decode_ended", {{"reason", worker::v1::EndReason_Name(reason)},
                                          {"received", counts.received},
                                          {"computed", counts.computed},
                                          {"recomputed", counts.recomputed}});
}

void DecodeFlow::Fail(const absl::Status& status) {
  if (!Release()) return;
  if (!absl::IsCancelled(status)) {
    observability::LogWarning("decode_failed", {{"code", absl::StatusCodeToString(status.code())},
                                                {"message", std::string(status.message())}});
  }
  sink_->Fail(status);
}

bool DecodeFlow::Release() {
  Held held;
  std::shared_ptr<DecodeMove> move;
  bool in_engine;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kEnded) return false;
    phase_ = Phase::kEnded;
    in_engine = in_engine_;
    held = std::exchange(held_, {});
    move = std::exchange(move_, nullptr);
  }
  if (move != nullptr) move->sender()->Cancel();
  if (held.reservation != nullptr) {
    if (!KV_PLANTED(reservation_kept)) reservations_.Remove(held.handoff_id);
    if (!KV_PLANTED(open_after_end)) held.reservation->Close();
  }
  if (in_engine && !KV_PLANTED(forgotten_stop)) context_.engine->Stop(held.session, sampling::EndReason::kNone);
  return true;
}

}  // namespace kvrelay::decode_worker
