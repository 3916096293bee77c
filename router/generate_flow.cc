#include "router/generate_flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/planted_bug.h"
#include "common/rpc/duration.h"

namespace kvrelay::router {
namespace {

wire::Source SourceOf(v1::Execution execution) {
  switch (execution) {
    case v1::EXECUTION_SPLIT:
      return wire::SOURCE_RECEIVED;
    case v1::EXECUTION_NO_CACHE:
      return wire::SOURCE_NO_CACHE;
    default:
      return wire::SOURCE_COMPUTED;
  }
}

}  // namespace

GenerateFlow::GenerateFlow(FlowRequest request, FlowDeps deps)
    : request_(std::move(request)),
      deps_(std::move(deps)),
      accounting_(request_.spec.prompt_length(), request_.resumed()),
      output_(&request_, &accounting_, deps_.token_bytes, deps_.sink, deps_.clock),
      tokens_(request_.spec.token_ids().begin() + request_.spec.prompt_length(), request_.spec.token_ids().end()) {}

void GenerateFlow::Start() {
  KV_CHECK(tokens_.size() < request_.spec.max_tokens(), "validation leaves at least one token to select");
  if (absl::Status status = output_.Resume(); !status.ok()) return End(status);
  EnterQueue(request_.execution);
}

void GenerateFlow::Abort(const absl::Status& status) {
  if (state_ != FlowState::kDone) End(status);
}

void GenerateFlow::OnTick() {
  if (state_ == FlowState::kDone) return;
  MindClient();
  if (state_ == FlowState::kDone) return;
  if (state_ == FlowState::kQueued) return TryPlace();
  const absl::Duration now = deps_.clock->Now();
  const absl::Duration paused = pauses_.OnTick(now);
  for (Call* call : {&decode_, &prefill_, &other_}) call->life = std::min(call->life + paused, now);
  if (state_ == FlowState::kFinishing && deps_.clock->Now() - finishing_since_ > deps_.limits.finish_timeout) {
    ClosePrefill(/*drop=*/false);
    CloseDecode(/*drop=*/false);
    CloseOther(/*drop=*/true);
    return TryFinish();
  }
  if (prefill_call_ != nullptr) {
    if (absl::Status status = CheckLife(prefill_, /*beats_due=*/true); !status.ok()) PrefillFailed(status);
  }
  if (decode_call_ != nullptr) {
    if (absl::Status status = CheckLife(decode_, decode_.beats || !reserved_); !status.ok()) DecodeFailed(status);
  }
  if (other_call_ != nullptr) {
    if (absl::Status status = CheckLife(other_, /*beats_due=*/true); !status.ok()) OnOtherFailed(status);
  }
  MoveIfDraining();
}

// ---- Plans ----

PlacementRequest GenerateFlow::Wanted(v1::Execution execution) {
  return {.execution = execution,
          .needs_decode = tokens_left() > 1,
          .tokens = uint64_t{request_.spec.prompt_length()} + request_.spec.max_tokens(),
          .to_prefill = request_.spec.prompt_length() + static_cast<uint32_t>(tokens_.size()),
          .held = deps_.memory->Held(Chain()),
          .handoff = deps_.memory->handoff(),
          .numerics_id = numerics_id_};
}

absl::StatusOr<Plan> GenerateFlow::PlaceNow(v1::Execution execution, const AvoidedWorkers& avoided) {
  const PlacementRequest wanted = Wanted(execution);
  return Place(deps_.workers->Candidates(wanted, avoided), wanted, avoided);
}

const BlockChain& GenerateFlow::Chain() {
  const size_t length = request_.spec.prompt_length() + tokens_.size();
  if (chain_.size() == length / kBlockTokens) return chain_;  // tokens are added, never changed
  std::vector<uint32_t> all(request_.spec.token_ids().begin(),
                            request_.spec.token_ids().begin() + request_.spec.prompt_length());
  all.insert(all.end(), tokens_.begin(), tokens_.end());
  return chain_ = ChainOf(request_.spec.cache_salt(), all);
}

// Executions without a cache leave nothing behind.
void GenerateFlow::Learn(const Worker& worker, uint32_t positions) {
  if (plan_.execution != v1::EXECUTION_NO_CACHE) deps_.memory->Learn(Chain(), worker, positions);
}

void GenerateFlow::OpenPlan(Plan plan) {
  plan_ = std::move(plan);
  plan_first_ = static_cast<uint32_t>(tokens_.size());
  reserved_ = published_ = false;
  attempt_ = 1;
  output_.OnPlaced();
  plan_.decode ? OpenDecode() : OpenPrefill();
}

void GenerateFlow::InitCall(Call* call, const Worker& worker, bool cached, uint32_t next_index) {
  const absl::Duration now = deps_.clock->Now();
  *call = {.id = ++last_call_,
           .worker = worker,
           .entry = accounting_.Open(worker, cached),
           .opened = now - request_.arrival,
           .life = now,
           .next_index = next_index};
}

wire::GenerationSpec GenerateFlow::SpecWith(uint32_t count) const {
  wire::GenerationSpec spec = request_.spec;
  spec.mutable_token_ids()->Truncate(static_cast<int>(spec.prompt_length()));
  spec.mutable_token_ids()->Add(tokens_.begin(), tokens_.begin() + count);
  return spec;
}

void GenerateFlow::OpenDecode() {
  state_ = FlowState::kReserving;
  move_asked_ = false;
  InitCall(&decode_, *plan_.decode, plan_.execution != v1::EXECUTION_NO_CACHE, plan_first_);
  handoff_id_ = deps_.new_handoff_id();
  KV_CHECK(handoff_id_.size() == 16, "a handoff id is 16 bytes");
  wire::DecodeRequest request;
  wire::Reserve& reserve = *request.mutable_reserve();
  reserve.set_handoff_id(handoff_id_);
  const bool loses = KV_PLANTED(replan_loses_token) && replans_ > 0 && plan_first_ > 0;
  *reserve.mutable_spec() = SpecWith(plan_first_ - loses);  // the same for all attempts of a plan
  reserve.set_source(SourceOf(plan_.execution));
  if (plan_.prefill) reserve.set_sender_instance(plan_.prefill->instance());
  decode_call_ = deps_.calls->OpenDecode(decode_.id, decode_.worker);
  decode_call_->Send(std::move(request));
  if (client_behind_) SendHold();
}

void GenerateFlow::OpenPrefill() {
  state_ = FlowState::kPrefilling;
  ++attempts_, ++attempts_in_row_;
  InitCall(&prefill_, *plan_.prefill, /*cached=*/true, plan_first_);
  output_.HoldRuns();
  wire::PrefillRequest request;
  *request.mutable_spec() = SpecWith(plan_first_);
  if (plan_.decode) {
    wire::Handoff& handoff = *request.mutable_handoff();
    handoff.set_handoff_id(handoff_id_);
    handoff.set_attempt(attempt_);
    handoff.set_kv_address(kv_address_);
    handoff.set_decode_instance(decode_.worker.instance());
    request.set_first_position(positions_held_);
  }
  prefill_call_ = deps_.calls->OpenPrefill(prefill_.id, prefill_.worker, request);
}

// A worker has taken the request: the client may know, and later plans keep to this set of workers.
void GenerateFlow::Accepted() {
  numerics_id_ = plan_.decode ? plan_.decode->numerics_id() : plan_.prefill->numerics_id();
  output_.Start(plan_);
  LeaveQueue();
}

// ---- Events of the decode call ----

void GenerateFlow::OnDecode(CallId id, const wire::DecodeResponse& response) {
  Call* call = id == decode_.id && decode_call_ != nullptr ? &decode_
               : id == other_.id && other_call_ != nullptr ? &other_
                                                           : nullptr;
  if (call == nullptr) return;
  if (response.event_case() == wire::DecodeResponse::kHeartbeat) return Alive(call, response.heartbeat().beat());
  call->life = deps_.clock->Now();
  call == &decode_ ? OnDecodeEvent(response) : OnOtherEvent(response);
}

void GenerateFlow::OnDecodeEvent(const wire::DecodeResponse& response) {
  switch (response.event_case()) {
    case wire::DecodeResponse::kReserved:
      return OnReserved(response.reserved());
    case wire::DecodeResponse::kAttemptOpen:
      return OnAttemptOpen(response.attempt_open());
    case wire::DecodeResponse::kCommitted:
      return OnCommitted(response.committed());
    case wire::DecodeResponse::kSelected:
      return OnDecodeSelected(&decode_, response.selected());
    case wire::DecodeResponse::kEnded:
      return OnEnded(response.ended());
    case wire::DecodeResponse::kMoved:
      if (move_asked_) return;  // Ended follows, with the counts
      return Broken(decode_, "moved a stream that nobody asked it to move");
    case wire::DecodeResponse::kMoveFailed:
      return AbandonMove(
          absl::Status(static_cast<absl::StatusCode>(response.move_failed().code()), response.move_failed().message()));
    default:
      return Broken(decode_, "sent a message that this router does not know");
  }
}

void GenerateFlow::OnDecodeEnd(CallId id, const absl::Status& status) {
  if (id == other_.id && other_call_ != nullptr) {
    return OnOtherFailed(status.ok() ? absl::InternalError("ended its call without saying why") : status);
  }
  if (id != decode_.id || decode_call_ == nullptr) return;
  if (status.ok()) return Broken(decode_, "ended its call without saying why");
  DecodeFailed(status);
}

absl::Status GenerateFlow::CheckIdentity(const Call& call, const wire::WorkerIdentity& found) {
  const wire::WorkerIdentity& expected = call.worker.status.identity();
  if (found.instance() == expected.instance() && found.epoch() == expected.epoch() &&
      found.model_fingerprint() == expected.model_fingerprint() && found.numerics_id() == expected.numerics_id()) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("another process answers at ", call.worker.address, ": ", found.instance(),
                                             " instead of ", expected.instance()));
}

void GenerateFlow::OnReserved(const wire::Reserved& reserved) {
  if (reserved_) return Broken(decode_, "reserved twice");
  if (absl::Status status = CheckIdentity(decode_, reserved.identity()); !status.ok()) return DecodeFailed(status);
  if (reserved.positions_held() >= plan_length()) {
    return Broken(decode_, "holds more positions than the prompt has before its last");
  }
  if (plan_.prefill && reserved.kv_address().empty()) return Broken(decode_, "has no address for KV");
  reserved_ = true;
  kv_address_ = reserved.kv_address();
  positions_held_ = reserved.positions_held();
  Learn(decode_.worker, positions_held_);
  if (plan_.prefill) return OpenPrefill();
  state_ = FlowState::kDecoding;
  ++attempts_;
  Accepted();
}

void GenerateFlow::OnAttemptOpen(const wire::AttemptOpen& open) {
  if (state_ != FlowState::kOpeningAttempt || open.attempt() != attempt_) {
    return Broken(decode_, "opened an attempt that nobody asked for");
  }
  OpenPrefill();
}

void GenerateFlow::OnCommitted(const wire::Committed& committed) {
  if (committed.winner() == 0 || committed.winner() > attempt_) {
    return Broken(decode_, "published an attempt that was never made");
  }
  OnPublished();
}

void GenerateFlow::OnPublished() {
  if (!std::exchange(published_, true)) Learn(decode_.worker, plan_length());
  if (state_ == FlowState::kPrefilling || state_ == FlowState::kOpeningAttempt) state_ = FlowState::kDecoding;
  SendFinishIfDue();
}

void GenerateFlow::OnDecodeSelected(Call* call, const wire::Selected& selected) {
  if (!reserved_) return Broken(*call, "selected a token before it had reserved");
  Accepted();  // first: Started tells of the time before the token
  if (!CheckSelected(call, selected)) return;
  if (call == &decode_) OnPublished();
  // In a move the source may be ahead of the target for a while.
  if (selected.index() + 1 >= tokens_.size()) accounting_.SetHolder(call->entry);
  TakeToken(*call, selected);
  const bool own_run = selected.positions().computed() > 0;
  if (state_ != FlowState::kDone && own_run && selected.has_run()) output_.DecodeRun(TraceOf(*call, selected));
}

void GenerateFlow::OnEnded(const wire::Ended& ended) {
  if (ended.reason() == wire::END_REASON_MOVED) return OnSourceMoved(ended);
  if (absl::Status status = accounting_.Report(decode_.entry, ended.positions()); !status.ok()) return End(status);
  if (!text_ended_) return Broken(decode_, "ended a request that had not ended");
  if (!plan_.prefill) {
    output_.SetLocalTimes(ended);
    cached_ = ended.positions().reused();
  }
  deps_.workers->OnOutcome(decode_.worker, absl::OkStatus());
  CloseDecode(/*drop=*/false);
  TryFinish();
}

// ---- Events of the prefill call ----

void GenerateFlow::OnPrefill(CallId id, const wire::PrefillResponse& response) {
  if ((id != prefill_.id && !KV_PLANTED(stale_events)) || prefill_call_ == nullptr) return;
  switch (response.event_case()) {
    case wire::PrefillResponse::kProgress:
      return OnProgress(response.progress());
    case wire::PrefillResponse::kSelected:
      prefill_.life = deps_.clock->Now();
      return OnPrefillSelected(response.selected());
    case wire::PrefillResponse::kDone:
      return OnPrefillDone(response.done());
    default:
      return Broken(prefill_, "sent a message that this router does not know");
  }
}

void GenerateFlow::OnPrefillEnd(CallId id, const absl::Status& status) {
  if (id != prefill_.id || prefill_call_ == nullptr) return;
  if (status.ok()) return Broken(prefill_, "ended its call without saying why");
  PrefillFailed(status);
}

void GenerateFlow::OnProgress(const wire::PrefillProgress& progress) {
  const wire::WorkerIdentity& expected = prefill_.worker.status.identity();
  if (progress.identity().instance() != expected.instance() || progress.identity().epoch() != expected.epoch()) {
    return PrefillFailed(absl::UnavailableError(absl::StrCat("another process answers at ", prefill_.worker.address)));
  }
  Alive(&prefill_, progress.beat());
  accounting_.ReportProgress(prefill_.entry, std::min(progress.computed(), plan_length()));
  Accepted();
}

void GenerateFlow::OnPrefillSelected(const wire::Selected& selected) {
  if (prefill_.next_index != plan_first_) return Broken(prefill_, "selected more than one token");
  Accepted();
  if (!CheckSelected(&prefill_, selected)) return;
  if (!published_) accounting_.SetHolder(prefill_.entry);
  Learn(prefill_.worker, plan_length());
  if (selected.has_run()) output_.PrefillRun(TraceOf(prefill_, selected));
  TakeToken(prefill_, selected);
}

void GenerateFlow::OnPrefillDone(const wire::PrefillDone& done) {
  if (prefill_.next_index == plan_first_) return Broken(prefill_, "was done without a token");
  if (absl::Status status = accounting_.Report(prefill_.entry, done.positions()); !status.ok()) return End(status);
  kv_bytes_shipped_ += done.bytes_shipped();
  if (plan_.decode) {
    deps_.memory->OnHandoff(rpc::FromProto(done.transfer()) - rpc::FromProto(done.transfer_hidden()));
  }
  cached_ = done.positions().reused();
  output_.SetPrefillTimes(done);
  output_.ReleaseRuns(done.bytes_shipped(), ShipmentsOf(done));
  deps_.workers->OnOutcome(prefill_.worker, absl::OkStatus());
  ClosePrefill(/*drop=*/false);
  if (plan_.decode) OnPublished();
  TryFinish();
}

// ---- Tokens ----

bool GenerateFlow::CheckSelected(Call* call, const wire::Selected& selected) {
  const uint32_t size = deps_.vocabulary_size;
  const bool known = selected.token_id() < size && std::all_of(selected.top().begin(), selected.top().end(),
                                                               [&](const auto& top) { return top.token_id() < size; });
  if (!known) return Broken(*call, "selected a token outside the vocabulary"), false;
  if (selected.index() != call->next_index) {
    return Broken(*call, absl::StrCat("sent token ", selected.index(), " instead of ", call->next_index)), false;
  }
  if (!wire::EndReason_IsValid(selected.end()) || selected.end() == wire::END_REASON_FINISHED_BY_ROUTER ||
      selected.end() == wire::END_REASON_MOVED ||
      (selected.end() == wire::END_REASON_UNSPECIFIED && selected.index() + 1 == request_.spec.max_tokens())) {
    return Broken(*call, absl::StrCat("sent token ", selected.index(), " with a wrong end")), false;
  }
  // A token that came with its KV is not of an own run: nothing was computed yet.
  absl::Status status = accounting_.ReportSelected(call->entry, selected.positions(), selected.index(),
                                                   /*own_run=*/selected.positions().computed() > 0);
  if (!status.ok()) return End(status), false;
  ++call->next_index;
  return true;
}

void GenerateFlow::TakeToken(const Call& call, const wire::Selected& selected) {
  if (selected.index() < tokens_.size()) {
    if (selected.token_id() == tokens_[selected.index()]) return;
    return End(absl::DataLossError(absl::StrCat("token ", selected.index(), " came out as ", tokens_[selected.index()],
                                                " on one worker and as ", selected.token_id(), " on another")));
  }
  if (text_ended_ && end_reason_ != wire::END_REASON_UNSPECIFIED) return Broken(call, "went on after the end");
  tokens_.push_back(selected.token_id());
  if (call.id == decode_.id) attempts_in_row_ = replans_in_row_ = 0;  // progress that only a live worker makes
  if (text_ended_) return accounting_.CountDropped();
  const bool stopped = output_.Token(selected);
  if (!stopped && selected.end() == wire::END_REASON_UNSPECIFIED) return;
  text_ended_ = true;
  end_reason_ = stopped ? wire::END_REASON_UNSPECIFIED : selected.end();
  EnterFinishing();
}

v1::RunTrace GenerateFlow::TraceOf(const Call& call, const wire::Selected& selected) const {
  const wire::Run& run = selected.run();
  const uint32_t known = accounting_.KnownBefore(call.entry, run.computed(), run.end_position());
  v1::RunTrace trace;
  trace.set_instance(call.worker.instance());
  trace.set_first_position(run.first_position());
  trace.set_end_position(run.end_position());
  trace.set_computed(run.computed() - known);
  trace.set_recomputed(run.recomputed() + known);
  trace.set_appended(run.appended());
  trace.set_positions_read(run.positions_read());
  trace.set_attention_pairs(run.attention_pairs());
  trace.set_rejected(run.rejected());
  trace.set_flops(run.flops());
  trace.set_kv_bytes_read(run.kv_bytes_read());
  trace.set_token_id(selected.token_id());
  trace.set_kv_ready(selected.positions().kv_ready());
  trace.set_history(request_.spec.prompt_length() + selected.index() + 1);
  *trace.mutable_start() = rpc::ToProto(call.opened + rpc::FromProto(run.start()));
  *trace.mutable_duration() = run.duration();
  for (const wire::Chunk& step : run.chunks()) {
    v1::Chunk& chunk = *trace.add_chunks();
    chunk.set_first_position(step.first_position());
    chunk.set_end_position(step.end_position());
    *chunk.mutable_start() = rpc::ToProto(call.opened + rpc::FromProto(step.start()));
    *chunk.mutable_duration() = step.duration();
  }
  return trace;
}

std::vector<v1::Shipment> GenerateFlow::ShipmentsOf(const wire::PrefillDone& done) const {
  std::vector<v1::Shipment> shipments;
  for (const wire::Shipment& written : done.shipments()) {
    v1::Shipment& shipment = shipments.emplace_back();
    shipment.set_layer(written.layer());
    shipment.set_first_position(written.first_position());
    shipment.set_end_position(written.end_position());
    *shipment.mutable_start() = rpc::ToProto(prefill_.opened + rpc::FromProto(written.start()));
    *shipment.mutable_duration() = written.duration();
    shipment.set_bytes(written.bytes());
  }
  return shipments;
}

// ---- The end ----

void GenerateFlow::EnterFinishing() {
  state_ = FlowState::kFinishing;
  finishing_since_ = deps_.clock->Now();
  if (move_step_ != MoveStep::kSwitched) CloseOther(/*drop=*/true);
  SendFinishIfDue();
}

// A worker ends by itself at end tokens and at max_tokens; of stop strings only the router knows. Until the KV is
// published, Finish would take the reservation away from under the prefill worker.
void GenerateFlow::SendFinishIfDue() {
  const bool by_stop_string = text_ended_ && end_reason_ == wire::END_REASON_UNSPECIFIED;
  if (!by_stop_string || !published_ || finish_sent_ || decode_call_ == nullptr || KV_PLANTED(lost_finish)) return;
  finish_sent_ = true;
  wire::DecodeRequest request;
  request.mutable_finish();
  decode_call_->Send(std::move(request));
}

void GenerateFlow::TryFinish() {
  if (state_ != FlowState::kFinishing) return;
  if (decode_call_ != nullptr || prefill_call_ != nullptr || other_call_ != nullptr) return;
  // The next turn of a conversation begins with this.
  if (plan_.decode) Learn(decode_.worker, request_.spec.prompt_length() + static_cast<uint32_t>(tokens_.size()) - 1);
  output_.Finish({.reason = end_reason_,
                  .token_id = tokens_.back(),
                  .attempts = attempts_,
                  .replans = replans_,
                  .moves = moves_,
                  .kv_bytes_shipped = kv_bytes_shipped_,
                  .cached = cached_});
  End(absl::OkStatus());
}

}  // namespace kvrelay::router
