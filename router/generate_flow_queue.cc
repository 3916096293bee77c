// How GenerateFlow waits for room. Whoever waits holds nothing: both calls are closed, and the request asks again when
// the queue lets it and a worker may have room. A request leaves the queue when a worker has taken it.
#include <utility>

#include "absl/strings/str_cat.h"
#include "router/generate_flow.h"

namespace kvrelay::router {

void GenerateFlow::EnterQueue(v1::Execution execution) {
  if (ticket_ == 0) {
    absl::StatusOr<AdmissionQueue::Ticket> ticket =
        deps_.admission->Enter({.arrival = request_.arrival,
                                .priority = request_.spec.priority(),
                                .tokens = uint64_t{request_.spec.prompt_length()} + request_.spec.max_tokens(),
                                .admitted_before = attempts_ > 0},
                               deps_.wake);
    if (!ticket.ok()) return End(ticket.status());
    ticket_ = *ticket;
    queued_since_ = deps_.clock->Now();
  }
  state_ = FlowState::kQueued;
  queued_execution_ = execution;
  retry_at_ = deps_.clock->Now();
  TryPlace();
}

void GenerateFlow::OnWake() {
  if (state_ != FlowState::kQueued) return;
  retry_at_ = deps_.clock->Now();
  TryPlace();
}

void GenerateFlow::TryPlace() {
  const absl::Duration now = deps_.clock->Now();
  if (now - queued_since_ > deps_.limits.queue_timeout) {
    return End(absl::ResourceExhaustedError(absl::StrCat("waited ", absl::FormatDuration(now - queued_since_),
                                                         " for room on a worker",
                                                         full_.ok() ? "" : absl::StrCat("; ", full_.message()))));
  }
  if (now < retry_at_ || !deps_.admission->MayTry(ticket_)) return;
  auto plan = PlaceNow(queued_execution_, avoided_);
  if (!plan.ok()) return End(plan.status());
  OpenPlan(*std::move(plan));
}

void GenerateFlow::WaitForRoom(v1::Execution execution, const absl::Status& refusal) {
  ClosePrefill(/*drop=*/true);
  CloseDecode(/*drop=*/true);
  avoided_.ForgetFull();
  full_ = refusal;
  if (ticket_ == 0) return EnterQueue(execution);
  deps_.admission->OnRefused(ticket_);
  state_ = FlowState::kQueued;
  queued_execution_ = execution;
  retry_at_ = deps_.clock->Now() + deps_.limits.queue_retry;
}

void GenerateFlow::LeaveQueue() {
  if (ticket_ != 0) deps_.admission->Leave(std::exchange(ticket_, 0));
}

}  // namespace kvrelay::router
