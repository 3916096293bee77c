#include "decode_worker/decode_call.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/duration.h"
#include "common/rpc/status_mapping.h"
#include "common/worker/convert.h"
#include "common/worker/spec.h"

namespace kvrelay::decode_worker {
namespace {

using worker::v1::KvCommit;
using worker::v1::Reserve;

constexpr absl::Duration kRetryAfter = absl::Seconds(1);

absl::StatusOr<engine::KvSource> ParseSource(worker::v1::Source source) {
  switch (source) {
    case worker::v1::SOURCE_RECEIVED:
      return engine::KvSource::kReceived;
    case worker::v1::SOURCE_COMPUTED:
      return engine::KvSource::kComputed;
    case worker::v1::SOURCE_NO_CACHE:
      return engine::KvSource::kNoCache;
    default:
      return absl::InvalidArgumentError("source is not set to a known value");
  }
}

absl::Status CheckInstance(const std::string& instance) {
  constexpr size_t kMaxBytes = 256;
  if (!instance.empty() && instance.size() <= kMaxBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sender_instance has ", instance.size(), " bytes, it must have 1 to ", kMaxBytes));
}

}  // namespace

// Keeps the call alive as long as the engine may speak to it.
class DecodeCall::Listener final : public engine::SessionListener {
 public:
  explicit Listener(std::shared_ptr<DecodeCall> call) : call_(std::move(call)) {}
  void OnBeat(uint64_t beat, bool queued, uint32_t computed) override { call_->OnBeat(beat); }
  void OnSelected(const engine::SelectedToken& token) override { call_->OnSelected(token); }
  void OnEnded(const absl::Status& status, sampling::EndReason reason, const engine::PositionCounts& counts) override {
    call_->OnEnded(status, reason, counts);
  }

 private:
  const std::shared_ptr<DecodeCall> call_;
};

DecodeCall* DecodeCall::Start(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
                              ReservationTable* reservations) {
  auto call = std::make_shared<DecodeCall>(call_context, context, reservations);
  call->self_ = call;
  call->StartRead(&call->request_);
  return call.get();
}

DecodeCall::DecodeCall(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
                       ReservationTable* reservations)
    : context_(*context), reservations_(*reservations), writer_(this, kMaxWaitingEvents, [call_context] {
        observability::LogWarning("decode_reader_too_slow", {{"events_waiting", kMaxWaitingEvents}});
        call_context->TryCancel();
      }) {}

void DecodeCall::OnReadDone(bool ok) {
  if (!ok) {
    // The router sends no more commands; the stream goes on if there is one.
    bool empty;
    {
      std::lock_guard lock(mutex_);
      empty = phase_ == Phase::kNew;
    }
    if (empty) Fail(absl::InvalidArgumentError("the call ended its commands without a Reserve"));
    return;
  }
  if (const absl::Status status = Handle(request_); !status.ok()) return Fail(status);
  StartRead(&request_);
}

void DecodeCall::OnCancel() { Fail(absl::CancelledError("the owner of the reservation has ended")); }

void DecodeCall::OnDone() {
  bool admitted;
  {
    std::lock_guard lock(mutex_);
    admitted = admitted_;
  }
  if (admitted) context_.calls->Leave();
  self_.reset();
}

absl::Status DecodeCall::Handle(const DecodeRequest& request) {
  switch (request.command_case()) {
    case DecodeRequest::kReserve:
      return OnReserve(request.reserve());
    case DecodeRequest::kAttempt:
      return OnAttempt(request.attempt());
    case DecodeRequest::kMoveTo:
      return absl::UnimplementedError("this version does not move streams");
    case DecodeRequest::kFinish:
      return OnFinish();
    case DecodeRequest::COMMAND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message has no known command");
}

absl::Status DecodeCall::OnReserve(const Reserve& reserve) {
  {
    std::lock_guard lock(mutex_);
    if (admitted_) return absl::InvalidArgumentError("Reserve comes once, and first");
    KV_RETURN_IF_ERROR(context_.calls->Enter());
    admitted_ = true;
  }
  KV_RETURN_IF_ERROR(worker::CheckHandoffId(reserve.handoff_id()));
  KV_ASSIGN_OR_RETURN(engine::SessionSpec spec, worker::ParseSpec(reserve.spec(), context_));
  KV_ASSIGN_OR_RETURN(spec.source, ParseSource(reserve.source()));
  const bool receives = spec.source == engine::KvSource::kReceived;
  if (receives) KV_RETURN_IF_ERROR(CheckInstance(reserve.sender_instance()));
  end_rule_ = spec.end_rule;
  logprobs_ = reserve.spec().logprobs() > 0;
  trace_ = reserve.spec().trace();
  computes_prompt_ = !receives;
  absl::StatusOr<std::shared_ptr<engine::Session>> session = context_.engine->Reserve(std::move(spec));
  if (absl::IsResourceExhausted(session.status())) return rpc::WithRetryDelay(session.status(), kRetryAfter);
  KV_RETURN_IF_ERROR(session.status());
  if (receives) return StartReceiving(reserve, *std::move(session));
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kNew) return absl::OkStatus();
    phase_ = Phase::kRunning;
    held_.session = *session;
    PushReserved();
  }
  StartEngine(*session);
  return absl::OkStatus();
}

absl::Status DecodeCall::StartReceiving(const Reserve& reserve, std::shared_ptr<engine::Session> session) {
  const engine::SessionSpec& spec = session->spec();
  kv_wire::HandoffExpectation expected{.handoff_id = reserve.handoff_id(),
                                       .model_fingerprint = context_.identity.model_fingerprint(),
                                       .numerics_id = context_.identity.numerics_id(),
                                       .tokens = static_cast<int>(spec.tokens.size()),
                                       .max_end_position = static_cast<int>(spec.tokens.size()),
                                       .first_index = static_cast<uint32_t>(spec.tokens.size()) - spec.prompt_length,
                                       .vocabulary = static_cast<uint32_t>(context_.vocabulary),
                                       .logprobs = spec.logprobs,
                                       .ends_request = [rule = spec.end_rule](uint32_t index, uint32_t token) {
                                         return sampling::EndsRequest(rule, index + 1, static_cast<int32_t>(token)) !=
                                                sampling::EndReason::kNone;
                                       }};
  auto receiver = std::make_unique<kv_wire::HandoffReceiver>(session->cache(), std::move(expected), context_.clock);
  // Weak: the table must not keep a call alive.
  auto reservation = std::make_shared<Reservation>(
      std::move(receiver), [weak = weak_from_this()](const KvCommit& commit, const kv_wire::HandoffReceipt& receipt) {
        if (const auto call = weak.lock()) call->OnPublished(commit, receipt.received);
      });
  KV_RETURN_IF_ERROR(reservation->OpenAttempt(1, reserve.sender_instance()).status());
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kNew) return absl::OkStatus();
    KV_RETURN_IF_ERROR(reservations_.Add(reserve.handoff_id(), reservation));
    phase_ = Phase::kReceiving;
    held_ = {reserve.handoff_id(), std::move(reservation), std::move(session)};
    PushReserved();
  }
  context_.ticker->Add(weak_from_this());
  return absl::OkStatus();
}

void DecodeCall::PushReserved() {
  DecodeResponse response;
  worker::v1::Reserved& reserved = *response.mutable_reserved();
  *reserved.mutable_identity() = context_.identity;
  reserved.set_kv_address(context_.kv_address);
  writer_.Push(std::move(response));
}

absl::Status DecodeCall::OnAttempt(const worker::v1::Attempt& attempt) {
  KV_RETURN_IF_ERROR(CheckInstance(attempt.sender_instance()));
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
  writer_.Push(std::move(response));
  return absl::OkStatus();
}

absl::Status DecodeCall::OnFinish() {
  engine::PositionCounts counts;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kNew) return absl::InvalidArgumentError("Finish needs a Reserve first");
    if (phase_ == Phase::kEnded) return absl::OkStatus();
    if (in_engine_) {
      context_.engine->Stop(held_.session, sampling::EndReason::kFinishedByRouter);
      return absl::OkStatus();
    }
    counts.received = counts.kv_ready = held_.session->cache()->kv_ready();
  }
  EndWith(sampling::EndReason::kFinishedByRouter, counts);
  return absl::OkStatus();
}

void DecodeCall::OnPublished(const KvCommit& commit, uint32_t received) {
  engine::PositionCounts counts;
  counts.received = counts.kv_ready = received;
  auto end = sampling::EndReason::kNone;
  std::shared_ptr<engine::Session> session;
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kReceiving) return;
    phase_ = Phase::kRunning;
    session = held_.session;
    std::vector<int32_t> tokens;
    for (const worker::v1::Selected& selected : commit.selected()) {
      DecodeResponse response;
      worker::v1::Selected& copy = *response.mutable_selected() = selected;
      end = sampling::EndsRequest(end_rule_, selected.index() + 1, static_cast<int32_t>(selected.token_id()));
      copy.set_end(worker::ToProto(end));
      *copy.mutable_positions() = worker::ToProto(counts);
      copy.clear_run();  // a run of the sender, which reports it itself
      tokens.push_back(static_cast<int32_t>(selected.token_id()));
      writer_.Push(std::move(response));
    }
    session->SetReceived(std::move(tokens));
  }
  if (end != sampling::EndReason::kNone) return EndWith(end, counts);
  StartEngine(session);
}

void DecodeCall::StartEngine(const std::shared_ptr<engine::Session>& session) {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::kRunning) return;  // ended meanwhile
  in_engine_ = true;
  context_.engine->Start(session, std::make_shared<Listener>(shared_from_this()));
}

void DecodeCall::OnBeat(uint64_t beat) {
  DecodeResponse response;
  response.mutable_heartbeat()->set_beat(beat);
  writer_.PushIfIdle(std::move(response));
}

// While KV is awaited the engine has no session to speak of, so its beat is read; if it stands still, nothing is sent.
void DecodeCall::OnTick() {
  const uint64_t beat = context_.engine->Load().beat;
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kReceiving || beat == last_beat_) return;
    last_beat_ = beat;
  }
  OnBeat(beat);
}

void DecodeCall::OnSelected(const engine::SelectedToken& token) {
  {
    std::lock_guard lock(mutex_);
    if (computes_prompt_ && !ended_.has_queue()) {
      *ended_.mutable_queue() = rpc::ToProto(token.run.start);
      *ended_.mutable_prefill() = rpc::ToProto(token.run.duration);
    }
    ended_.set_rows_per_step_max(std::max(ended_.rows_per_step_max(), token.run.rows_in_step_max));
  }
  DecodeResponse response;
  *response.mutable_selected() = worker::ToProto(token, logprobs_, trace_);
  writer_.Push(std::move(response));
}

void DecodeCall::OnEnded(const absl::Status& status, sampling::EndReason reason, const engine::PositionCounts& counts) {
  {
    std::lock_guard lock(mutex_);
    in_engine_ = false;
  }
  if (!status.ok()) return Fail(status);
  EndWith(reason, counts);
}

void DecodeCall::EndWith(sampling::EndReason reason, const engine::PositionCounts& counts) {
  if (!Release()) return;
  DecodeResponse response;
  worker::v1::Ended& ended = *response.mutable_ended() = std::move(ended_);
  ended.set_reason(worker::ToProto(reason));
  *ended.mutable_positions() = worker::ToProto(counts);
  writer_.Push(std::move(response));
  writer_.FinishAfterQueue(grpc::Status::OK);
  observability::LogInfo("decode_ended", {{"reason", worker::v1::EndReason_Name(worker::ToProto(reason))},
                                          {"received", counts.received},
                                          {"computed", counts.computed},
                                          {"recomputed", counts.recomputed}});
}

void DecodeCall::Fail(const absl::Status& status) {
  if (!Release()) return;
  if (!absl::IsCancelled(status)) {
    observability::LogWarning("decode_failed", {{"code", absl::StatusCodeToString(status.code())},
                                                {"message", std::string(status.message())}});
  }
  writer_.FinishNow(rpc::ToGrpc(status));
}

bool DecodeCall::Release() {
  Held held;
  bool in_engine;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kEnded) return false;
    phase_ = Phase::kEnded;
    in_engine = in_engine_;
    held = std::exchange(held_, {});
  }
  if (held.reservation != nullptr) {
    reservations_.Remove(held.handoff_id);
    held.reservation->Close();
  }
  if (in_engine) context_.engine->Stop(held.session, sampling::EndReason::kNone);
  return true;
}

}  // namespace kvrelay::decode_worker
