#include "router/flow_output.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/planted_bug.h"
#include "common/rpc/duration.h"
#include "common/text/tokenizer.h"

namespace kvrelay::router {
namespace {

bool IsEndToken(wire::EndReason reason) {
  return reason == wire::END_REASON_EOS || reason == wire::END_REASON_STOP_TOKEN;
}

}  // namespace

FlowOutput::FlowOutput(const FlowRequest* request, RequestAccounting* accounting, TokenBytes token_bytes,
                       FlowSink* sink, const Clock* clock)
    : request_(request),
      accounting_(accounting),
      token_bytes_(std::move(token_bytes)),
      sink_(sink),
      clock_(clock),
      decoder_(request->stop, request->include_stop) {}

absl::Status FlowOutput::Resume() {
  const wire::GenerationSpec& spec = request_->spec;
  for (uint32_t index = 0; index + KV_PLANTED(resume_off_by_one) < request_->resumed(); ++index) {
    const uint32_t id = spec.token_ids(static_cast<int>(spec.prompt_length() + index));
    const std::string bytes = token_bytes_(static_cast<int32_t>(id), request_->include_control);
    if (decoder_.Add(bytes, index + 1 >= spec.min_tokens()).stopped) {
      return absl::InvalidArgumentError(
          absl::StrCat("resume.token_ids[", index, "] completes a stop string: that stream had ended"));
    }
  }
  return absl::OkStatus();
}

void FlowOutput::OnPlaced() {
  if (!started_) placed_ = SinceArrival();
}

void FlowOutput::Start(const Plan& plan) {
  if (std::exchange(started_, true)) return;
  v1::GenerateResponse response;
  v1::Started& started = *response.mutable_started();
  started.set_request_id(request_->request_id);
  started.set_seed(request_->spec.seed());
  v1::Placement& placement = *started.mutable_placement();
  placement.set_execution(plan.execution);
  placement.set_prefill_instance(plan.prefill ? plan.prefill->instance() : plan.decode->instance());
  if (plan.decode) placement.set_decode_instance(plan.decode->instance());
  placement.set_reason(plan.reason);
  started.set_prompt_tokens(request_->spec.prompt_length());
  if (request_->spec.trace()) {
    const auto& ids = request_->spec.token_ids();
    started.mutable_prompt_token_ids()->Add(ids.begin(), ids.begin() + request_->spec.prompt_length());
  }
  Send(std::move(response));
}

bool FlowOutput::Token(const wire::Selected& selected) {
  KV_CHECK(started_ && !stopped_, "tokens come after Started and before a stop string");
  v1::GenerateResponse response;
  v1::Token& token = *response.mutable_token();
  token.set_index(selected.index());
  token.set_id(selected.token_id());
  // A token that ends the request has no text, whatever it would print as.
  const int32_t id = static_cast<int32_t>(selected.token_id());
  auto piece = decoder_.Add(IsEndToken(selected.end()) ? "" : token_bytes_(id, request_->include_control),
                            selected.index() + 1 >= request_->spec.min_tokens());
  stopped_ = piece.stopped;
  stop_ = std::move(piece.stop);
  token.set_text(std::move(piece.text));
  if (selected.has_logprob()) {
    token.set_logprob(selected.logprob());
    token.set_piece(text::ReplaceInvalidUtf8(token_bytes_(id, true)));
  }
  for (const wire::TopToken& likely : selected.top()) {
    v1::TokenLogprob& top = *token.add_top();
    top.set_id(likely.token_id());
    top.set_text(text::ReplaceInvalidUtf8(token_bytes_(static_cast<int32_t>(likely.token_id()), true)));
    top.set_logprob(likely.logprob());
  }
  accounting_->CountEmitted();
  last_token_ = SinceArrival();
  if (accounting_->emitted() == 1) first_token_ = last_token_;
  Send(std::move(response));
  return stopped_;
}

void FlowOutput::PrefillRun(v1::RunTrace run) { prefill_runs_.push_back(std::move(run)); }

void FlowOutput::DecodeRun(v1::RunTrace run) {
  decode_runs_.push_back(std::move(run));
  if (!runs_held_) SendRuns(&decode_runs_);
}

void FlowOutput::ReleaseRuns(uint64_t bytes_shipped, std::vector<v1::Shipment> shipments) {
  runs_held_ = false;
  if (!prefill_runs_.empty()) {
    v1::RunTrace& run = prefill_runs_.back();
    run.set_bytes_shipped(bytes_shipped);
    for (v1::Shipment& shipment : shipments) *run.add_shipments() = std::move(shipment);
  }
  SendRuns(&prefill_runs_);
  SendRuns(&decode_runs_);
}

void FlowOutput::SendRuns(std::vector<v1::RunTrace>* runs) {
  for (v1::RunTrace& run : *runs) {
    run.set_run(++runs_sent_);
    v1::GenerateResponse response;
    *response.mutable_run() = std::move(run);
    Send(std::move(response));
  }
  runs->clear();
}

void FlowOutput::SetPrefillTimes(const wire::PrefillDone& done) {
  *worker_times_.mutable_prefill_queue() = done.queue();
  *worker_times_.mutable_prefill() = done.prefill();
  *worker_times_.mutable_transfer() = done.transfer();
  *worker_times_.mutable_transfer_hidden() = done.transfer_hidden();
}

void FlowOutput::SetLocalTimes(const wire::Ended& ended) {
  *worker_times_.mutable_prefill_queue() = ended.queue();
  *worker_times_.mutable_prefill() = ended.prefill();
}

v1::Timings FlowOutput::Times() const {
  v1::Timings times = worker_times_;
  const uint32_t emitted = accounting_->emitted();
  const absl::Duration decode = last_token_ - first_token_;
  *times.mutable_router_queue() = rpc::ToProto(placed_);
  *times.mutable_first_token() = rpc::ToProto(first_token_);
  *times.mutable_decode() = rpc::ToProto(decode);
  *times.mutable_mean_gap() = rpc::ToProto(emitted < 2 ? absl::ZeroDuration() : decode / (emitted - 1));
  return times;
}

void FlowOutput::Finish(const End& end) {
  ReleaseRuns(0);
  v1::GenerateResponse response;
  v1::Finished& finished = *response.mutable_finished();
  finished.set_reason(!stopped_ && end.reason == wire::END_REASON_LENGTH ? v1::FINISH_REASON_LENGTH
                                                                         : v1::FINISH_REASON_STOP);
  if (stopped_) {
    finished.set_stop(stop_);
  } else {
    finished.set_text(decoder_.Flush());
    if (IsEndToken(end.reason)) finished.set_stop_token_id(end.token_id);
  }
  v1::Usage& usage = *finished.mutable_usage();
  usage.set_prompt(request_->spec.prompt_length());
  usage.set_completion(accounting_->emitted());
  usage.set_cached(end.cached);
  usage.set_dropped(accounting_->dropped());
  const auto [drafted, accepted] = accounting_->DraftedAndAccepted();
  usage.set_drafted(static_cast<uint32_t>(drafted));
  usage.set_accepted(static_cast<uint32_t>(accepted));
  *finished.mutable_timings() = Times();
  finished.set_attempts(end.attempts);
  finished.set_replans(end.replans);
  finished.set_moves(end.moves);
  for (v1::WorkerPositions& worker : accounting_->Workers()) *finished.add_workers() = std::move(worker);
  finished.set_kv_bytes_shipped(end.kv_bytes_shipped);
  Send(std::move(response));
}

void FlowOutput::Send(v1::GenerateResponse response) {
  *response.mutable_positions() = accounting_->Total();
  sink_->Send(std::move(response));
}

}  // namespace kvrelay::router
