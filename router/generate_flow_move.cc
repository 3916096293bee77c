// How GenerateFlow moves a running stream from a decode worker that drains to another, without computing anything
// again:
//
//   kNone       the worker drains, another can take the stream: D' is opened with a Reserve of all tokens so far
//                 -> kReserving
//   kReserving  Reserved from D' -> MoveTo to D -> kMoving
//   kMoving     D pushes its KV to D' and goes on meanwhile.
//                 first token on D', or Moved and Ended on D -> D' is the stream's D now; Finish to the old D if it has
//                 not ended -> kSwitched, until its last word
//                 MoveFailed on D, or D' fails -> D' is let go, D goes on; another try after `move_retry`
//                 D fails -> both are let go, and the flow plans anew
//   kSwitched   last tokens of the old D are compared with the known ones. Ended, or a failure -> kNone
//
// Both may run for a while when the receipt was lost: they select the same tokens, and the flow forwards the first
// copy.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/planted_bug.h"
#include "common/observability/log.h"
#include "router/generate_flow.h"

namespace kvrelay::router {

void GenerateFlow::MoveIfDraining() {
  if (state_ != FlowState::kDecoding || decode_call_ == nullptr || move_step_ != MoveStep::kNone || !published_) return;
  const bool worth_it = plan_.execution != v1::EXECUTION_NO_CACHE && tokens_.size() > plan_first_ && tokens_left() > 1;
  if (!worth_it || deps_.clock->Now() < move_at_ || !deps_.workers->Draining(decode_.worker)) return;
  move_at_ = deps_.clock->Now() + deps_.limits.move_retry;
  PlacementRequest wanted = Wanted(v1::EXECUTION_LOCAL);
  wanted.numerics_id = numerics_id_;
  AvoidedWorkers others = avoided_;
  others.Add(decode_.worker, AvoidedWorkers::kLost);
  const auto target = PickWorker(deps_.workers->Candidates(wanted, others), v1::WORKER_ROLE_DECODE, wanted, others);
  if (!target) return;

  move_step_ = MoveStep::kReserving;
  const auto count = static_cast<uint32_t>(tokens_.size());
  InitCall(&other_, *target, /*cached=*/true, count);
  move_handoff_id_ = deps_.new_handoff_id();
  wire::DecodeRequest request;
  wire::Reserve& reserve = *request.mutable_reserve();
  reserve.set_handoff_id(move_handoff_id_);
  *reserve.mutable_spec() = SpecWith(count);
  reserve.set_source(wire::SOURCE_MOVED);
  reserve.set_sender_instance(decode_.worker.instance());
  other_call_ = deps_.calls->OpenDecode(other_.id, other_.worker);
  other_call_->Send(std::move(request));
}

void GenerateFlow::SendMoveTo(const wire::Reserved& reserved) {
  if (absl::Status status = CheckIdentity(other_, reserved.identity()); !status.ok()) return AbandonMove(status);
  move_step_ = MoveStep::kMoving;
  move_asked_ = true;
  wire::DecodeRequest request;
  wire::MoveTo& move = *request.mutable_move_to();
  move.set_kv_address(reserved.kv_address());
  move.set_decode_instance(reserved.identity().instance());
  move.set_handoff_id(move_handoff_id_);
  move.set_tokens(request_.spec.prompt_length() + other_.next_index + KV_PLANTED(move_history_off));
  move.set_positions_held(reserved.positions_held());
  decode_call_->Send(std::move(request));
}

void GenerateFlow::OnOtherEvent(const wire::DecodeResponse& response) {
  switch (response.event_case()) {
    case wire::DecodeResponse::kReserved:
      if (move_step_ == MoveStep::kReserving) return SendMoveTo(response.reserved());
      break;
    case wire::DecodeResponse::kSelected:
      if (move_step_ == MoveStep::kMoving) {
        SwitchToTarget();
        return OnDecodeSelected(&decode_, response.selected());
      }
      if (move_step_ == MoveStep::kSwitched) return OnDecodeSelected(&other_, response.selected());
      break;
    case wire::DecodeResponse::kEnded:
      if (move_step_ == MoveStep::kSwitched) return OnOtherEnded(response.ended());
      break;
    case wire::DecodeResponse::kMoved:
    case wire::DecodeResponse::kMoveFailed:
      if (move_step_ == MoveStep::kSwitched) return;  // the target has spoken, so it is known better
      break;
    default:
      break;
  }
  OnOtherFailed(absl::InternalError("sent a message that does not fit a move"));
}

void GenerateFlow::OnOtherEnded(const wire::Ended& ended) {
  if (absl::Status status = accounting_.Report(other_.entry, ended.positions()); !status.ok()) return End(status);
  CloseOther(/*drop=*/true);
  TryFinish();
}

void GenerateFlow::OnOtherFailed(const absl::Status& status) {
  if (move_step_ != MoveStep::kSwitched) return AbandonMove(status);
  CloseOther(/*drop=*/true);
  TryFinish();
}

// The source has the receipt and has let go, before the target's first token came.
void GenerateFlow::OnSourceMoved(const wire::Ended& ended) {
  if (!move_asked_) return Broken(decode_, "moved a stream that nobody asked it to move");
  // The receipt crossed with the end of the target: nobody has the stream any more.
  if (move_step_ != MoveStep::kMoving) {
    if (absl::Status status = accounting_.Report(decode_.entry, ended.positions()); !status.ok()) return End(status);
    return DecodeFailed(absl::UnavailableError("the stream moved to a worker that has failed"));
  }
  SwitchToTarget();
  OnOtherEnded(ended);
}

void GenerateFlow::SwitchToTarget() {
  std::swap(decode_, other_);
  std::swap(decode_call_, other_call_);
  plan_.decode = decode_.worker;
  move_asked_ = false;
  move_step_ = MoveStep::kSwitched;
  ++moves_;
  observability::LogInfo("moved", {{"request_id", request_.request_id},
                                   {"from", other_.worker.instance()},
                                   {"to", decode_.worker.instance()},
                                   {"tokens", tokens_.size()}});
  if (client_behind_) SendHold();
  if (other_call_ == nullptr) return;
  wire::DecodeRequest request;
  request.mutable_finish();
  other_call_->Send(std::move(request));
}

void GenerateFlow::AbandonMove(const absl::Status& cause) {
  if (move_step_ != MoveStep::kReserving && move_step_ != MoveStep::kMoving) return;
  observability::LogWarning("move_abandoned", {{"request_id", request_.request_id},
                                               {"target", other_.worker.instance()},
                                               {"code", absl::StatusCodeToString(cause.code())},
                                               {"message", std::string(cause.message())}});
  avoided_.Add(other_.worker, AvoidedWorkers::kUnlucky);
  CloseOther(/*drop=*/true);
  move_at_ = deps_.clock->Now() + deps_.limits.move_retry;
}

void GenerateFlow::CloseOther(bool drop) {
  move_step_ = MoveStep::kNone;
  if (other_call_ == nullptr) return;
  other_call_.reset();
  if (drop) accounting_.Drop(other_.entry);
}

}  // namespace kvrelay::router
