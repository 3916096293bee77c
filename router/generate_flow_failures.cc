// What GenerateFlow does when a call fails; see the table in generate_flow.h.
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/planted_bug.h"
#include "router/generate_flow.h"

namespace kvrelay::router {
namespace {

// Whether another try may come out differently.
bool Repeatable(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kOutOfRange:
      return false;
    default:
      return true;
  }
}

// What a failure means for other tries of the request at the same worker.
AvoidedWorkers::Why WhyAvoided(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return AvoidedWorkers::kFull;
  return absl::IsUnavailable(status) ? AvoidedWorkers::kLost : AvoidedWorkers::kUnlucky;
}

std::string Describe(const Worker& worker) {
  return absl::StrCat(RoleName(worker.role), " worker ", worker.instance());
}

// The status with the worker's name before its message; details (a retry delay) stay. A worker's CANCELLED is not the
// client's; its ABORTED tells of a transfer that broke, which to the client is a service that cannot serve it now.
absl::Status Named(const Worker& worker, const absl::Status& status) {
  const bool between_us = absl::IsCancelled(status) || absl::IsAborted(status);
  const absl::StatusCode code = between_us ? absl::StatusCode::kUnavailable : status.code();
  absl::Status named(code, absl::StrCat(Describe(worker), ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { named.SetPayload(url, payload); });
  return named;
}

}  // namespace

void GenerateFlow::PrefillFailed(const absl::Status& status) {
  const Worker worker = prefill_.worker;
  if (state_ == FlowState::kFinishing) {
    ClosePrefill(/*drop=*/false);
    if (!published_) CloseDecode(/*drop=*/false);  // nothing will ever reach it
    return TryFinish();
  }
  if (published_) return ClosePrefill(/*drop=*/false);
  deps_.workers->OnOutcome(worker, status);
  ClosePrefill(/*drop=*/true);
  const absl::Status cause = Named(worker, status);
  avoided_.Add(worker, WhyAvoided(status));
  if (absl::IsResourceExhausted(status)) {
    --attempts_in_row_;
    if (!prefill_.beats) --attempts_;  // it was not even taken in
  }
  if (!Repeatable(status) || attempts_in_row_ >= deps_.limits.attempts_max) return End(cause);
  RetryPrefill(cause);
}

void GenerateFlow::RetryPrefill(const absl::Status& cause) {
  if (avoided_.CountFull() >= deps_.limits.refusals_max) return WaitForRoom(request_.execution, cause);
  if (plan_.decode && attempts_in_row_ >= 2 && TryOtherDecodeWorker()) return;
  PlacementRequest wanted = Wanted(v1::EXECUTION_SPLIT);
  wanted.numerics_id = prefill_.worker.numerics_id();
  plan_.prefill = PickWorker(deps_.workers->Candidates(wanted, avoided_), v1::WORKER_ROLE_PREFILL, wanted, avoided_);
  if (!plan_.prefill) {
    if (absl::IsResourceExhausted(cause)) return WaitForRoom(request_.execution, cause);
    if (request_.execution == v1::EXECUTION_SPLIT) {
      return End(absl::UnavailableError(
          absl::StrCat("execution SPLIT was asked for, and no other prefill worker is left after ", cause.message())));
    }
    if (!CountReplan()) return End(cause);
    CloseDecode(/*drop=*/true);
    return Replan(v1::EXECUTION_LOCAL, cause);
  }
  if (!plan_.decode) return OpenPrefill();
  state_ = FlowState::kOpeningAttempt;
  wire::DecodeRequest request;
  request.mutable_attempt()->set_attempt(KV_PLANTED(retry_same_attempt) ? attempt_ : ++attempt_);
  request.mutable_attempt()->set_sender_instance(plan_.prefill->instance());
  decode_call_->Send(std::move(request));
}

bool GenerateFlow::CountReplan() {
  if (replans_in_row_ >= deps_.limits.replans_max) return false;
  ++replans_, ++replans_in_row_;
  return true;
}

// Two prefill workers failed: it may be the link to this decode worker that is cut.
bool GenerateFlow::TryOtherDecodeWorker() {
  AvoidedWorkers others = avoided_;
  others.Add(*plan_.decode, AvoidedWorkers::kLost);
  auto plan = PlaceNow(v1::EXECUTION_SPLIT, others);
  if (!plan.ok() || !CountReplan()) return false;
  avoided_.Add(*plan_.decode, AvoidedWorkers::kUnlucky);
  CloseDecode(/*drop=*/true);
  OpenPlan(*std::move(plan));
  return true;
}

void GenerateFlow::DecodeFailed(const absl::Status& status) {
  const Worker worker = decode_.worker;
  if (state_ == FlowState::kFinishing) {
    CloseDecode(/*drop=*/false);
    return TryFinish();
  }
  deps_.workers->OnOutcome(worker, status);
  // The source of a move that has been told to finish may still send tokens; they mean nothing to the next plan.
  if (move_step_ != MoveStep::kSwitched || !KV_PLANTED(source_outlives_target)) CloseOther(/*drop=*/true);
  ClosePrefill(/*drop=*/true);
  CloseDecode(/*drop=*/true);
  const absl::Status cause = Named(worker, status);
  const AvoidedWorkers::Why why = WhyAvoided(status);
  avoided_.Add(worker, !reserved_ && why == AvoidedWorkers::kUnlucky ? AvoidedWorkers::kLost : why);
  if (!Repeatable(status)) return End(cause);
  if (reserved_ && !CountReplan()) return End(cause);
  Replan(request_.execution, cause);
}

void GenerateFlow::Replan(v1::Execution execution, const absl::Status& cause) {
  if (avoided_.CountFull() >= deps_.limits.refusals_max) return WaitForRoom(execution, cause);
  auto plan = PlaceNow(execution, avoided_);
  if (plan.ok()) return OpenPlan(*std::move(plan));
  if (avoided_.CountFull() > 0) return WaitForRoom(execution, cause);
  End(absl::UnavailableError(absl::StrCat(cause.message(), "; then ", plan.status().message())));
}

void GenerateFlow::ClosePrefill(bool drop) {
  if (prefill_call_ == nullptr) return;
  prefill_call_.reset();
  if (drop) accounting_.Drop(prefill_.entry);
  output_.ReleaseRuns(0);
}

void GenerateFlow::CloseDecode(bool drop) {
  if (decode_call_ == nullptr) return;
  decode_call_.reset();
  if (drop) accounting_.Drop(decode_.entry);
}

void GenerateFlow::Broken(const Call& call, absl::string_view what) {
  End(absl::InternalError(absl::StrCat(Describe(call.worker), " ", what)));
}

void GenerateFlow::End(const absl::Status& status) {
  state_ = FlowState::kDone;
  prefill_call_.reset();
  decode_call_.reset();
  other_call_.reset();
  LeaveQueue();
  deps_.sink->End(status);
  deps_.admission->Wake();  // what this request held is free, or soon will be
}

void GenerateFlow::Alive(Call* call, uint64_t beat) {
  if (!call->beats || beat != call->beat) call->life = deps_.clock->Now();
  call->beats = true;
  call->beat = beat;
}

absl::Status GenerateFlow::CheckLife(const Call& call, bool beats_due) const {
  if (deps_.workers->Lost(call.worker)) return absl::UnavailableError("its compute loop hangs or it was restarted");
  const absl::Duration silence = deps_.clock->Now() - call.life;
  if (beats_due && silence > deps_.limits.life_timeout) {
    return absl::UnavailableError(absl::StrCat("no sign of life for ", absl::FormatDuration(silence)));
  }
  return absl::OkStatus();
}

}  // namespace kvrelay::router
