#include "tests/sim/scale_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvrelay::sim {

struct ScaleWorker::Session {
  ScaleWorker* worker = nullptr;
  ScaleCallPtr call;
  std::string handoff_id;
  router::BlockChain chain;
  uint32_t length = 0;       // prompt and history
  uint32_t first_index = 0;  // of the first token to come
  uint32_t index = 0;        // of the next one
  uint32_t max_tokens = 0;
  uint32_t blocks = 0;
  uint32_t attempt = 1;
  bool running = false;
  wire::Positions positions;
};

uint32_t BlockCache::Held(const router::BlockChain& chain) {
  uint32_t held = 0;
  for (const uint64_t block : chain) {
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) break;
    by_recency_.splice(by_recency_.begin(), by_recency_, found->second);
    held += router::kBlockTokens;
  }
  return held;
}

void BlockCache::Keep(const router::BlockChain& chain) {
  for (const uint64_t block : chain) {
    if (blocks_.contains(block)) continue;
    by_recency_.push_front(block);
    blocks_.emplace(block, by_recency_.begin());
  }
  for (; blocks_.size() > kBlocksMax; by_recency_.pop_back()) blocks_.erase(by_recency_.back());
}

namespace {

router::BlockChain ChainOf(const wire::GenerationSpec& spec) {
  return router::ChainOf(spec.cache_salt(),
                         absl::MakeConstSpan(spec.token_ids().data(), static_cast<size_t>(spec.token_ids_size())));
}

wire::Selected SelectedOf(uint32_t index, uint32_t max_tokens, const wire::Positions& positions) {
  wire::Selected selected;
  selected.set_index(index);
  selected.set_token_id(index % 256);
  if (index + 1 == max_tokens) selected.set_end(wire::END_REASON_LENGTH);
  *selected.mutable_positions() = positions;
  return selected;
}

}  // namespace

ScaleWorker::ScaleWorker(World* world, Reservations* reservations, v1::WorkerRole role, int number, uint32_t blocks)
    : world_(world),
      reservations_(reservations),
      role_(role),
      blocks_(blocks),
      address_(absl::StrCat(role == v1::WORKER_ROLE_PREFILL ? "p" : "d", number, ":1")) {
  identity_.set_instance(address_);
  identity_.set_epoch(static_cast<uint64_t>(number) + 1);
  identity_.set_model_fingerprint(kScaleFingerprint);
  identity_.set_numerics_id("n1");
}

ScaleWorker::~ScaleWorker() = default;

wire::WatchStatusResponse ScaleWorker::Status() {
  wire::WatchStatusResponse status;
  *status.mutable_identity() = identity_;
  status.set_role(router::RoleName(role_));
  status.set_context_length(8192);
  status.set_draining(draining_);
  wire::Load& load = *status.mutable_load();
  load.set_beat(++beat_);
  load.set_kv_blocks_total(blocks_);
  load.set_kv_blocks_referenced(blocks_used_);
  load.set_active_sessions(static_cast<uint32_t>(role_ == v1::WORKER_ROLE_DECODE ? sessions_.size() : jobs_.size()));
  const double under_way = jobs_.empty() ? 0 : kPromptRate * absl::ToDoubleSeconds(job_ends_ - world_->Now());
  load.set_pending_prompt_tokens(waiting_ + static_cast<uint64_t>(under_way));
  load.set_prompt_tokens_per_second(kPromptRate);
  return status;
}

bool ScaleWorker::HasRoom(uint64_t tokens) const {
  if (!alive_ || draining_) return false;
  if (role_ == v1::WORKER_ROLE_PREFILL) return waiting_ + tokens <= kWaitingMax;
  return blocks_used_ + (tokens + router::kBlockTokens - 1) / router::kBlockTokens <= blocks_;
}

void ScaleWorker::Tell(const ScaleCallPtr& call, const wire::DecodeResponse& response) {
  world_->After(kScaleLatency, nullptr, [call, response] {
    if (call->open) call->on_decode(response);
  });
}

void ScaleWorker::Tell(const ScaleCallPtr& call, const wire::PrefillResponse& response) {
  world_->After(kScaleLatency, nullptr, [call, response] {
    if (call->open) call->on_prefill(response);
  });
}

void ScaleWorker::Refuse(const ScaleCallPtr& call, const absl::Status& status) {
  world_->After(kScaleLatency, nullptr, [call, status] {
    if (call->open) call->on_end(status);
  });
}

void ScaleWorker::Kill() {
  alive_ = false;
  for (const auto& [number, call] : calls_) Refuse(call, absl::UnavailableError("connection reset"));
}

void ScaleWorker::Take(const ScaleCallPtr& call) {
  call->number = ++calls_taken_;
  calls_.emplace(call->number, call);
}

void ScaleWorker::Close(const ScaleCallPtr& call) {
  calls_.erase(call->number);
  const auto found = sessions_.find(call.get());
  if (found == sessions_.end()) return;
  blocks_used_ -= found->second->blocks;
  reservations_->erase(found->second->handoff_id);
  sessions_.erase(found);
}

// ---- Prompts ----

void ScaleWorker::Enqueue(Job job) {
  jobs_.push_back(std::move(job));
  if (jobs_.size() == 1) return StartNext();
  waiting_ += jobs_.back().length;
}

// REQUIRES: the first job is not under way yet, and is not counted as waiting.
void ScaleWorker::StartNext() {
  const Job& job = jobs_.front();
  const uint32_t held = std::min(cache_.Held(job.chain), job.length - 1);
  const uint32_t computed = job.call->open ? job.length - held : 0;
  if (computed > 0) {
    assigned_ += computed;
    prompt_positions_ += job.length;
    reused_positions_ += held;
  }
  job_ends_ = world_->Now() + absl::Seconds(computed / kPromptRate);
  world_->After(job_ends_ - world_->Now(), nullptr, [this, held] {
    if (!alive_) return;
    const Job done = std::move(jobs_.front());
    jobs_.pop_front();
    if (done.call->open) {
      cache_.Keep(done.chain);
      done.done(held);
    }
    if (jobs_.empty()) return;
    waiting_ -= jobs_.front().length;
    StartNext();
  });
}

void ScaleWorker::Prefill(const ScaleCallPtr& call, const wire::PrefillRequest& request) {
  const auto length = static_cast<uint32_t>(request.spec().token_ids_size());
  if (!alive_ || draining_) return Refuse(call, absl::UnavailableError("draining"));
  if (!HasRoom(length)) return Refuse(call, absl::ResourceExhaustedError("too many prompt tokens wait"));
  Take(call);
  wire::PrefillResponse response;
  *response.mutable_progress()->mutable_identity() = identity_;
  response.mutable_progress()->set_queued(true);
  Tell(call, response);
  const uint32_t index = length - request.spec().prompt_length();
  const auto finish = [this, call, handoff = request.handoff(), length, index,
                       max_tokens = request.spec().max_tokens()](uint32_t held) {
    wire::Positions positions;
    positions.set_reused(held);
    positions.set_computed(length - held);
    positions.set_kv_ready(length);
    const wire::Selected selected = SelectedOf(index, max_tokens, positions);
    wire::PrefillResponse response;
    *response.mutable_selected() = selected;
    Tell(call, response);
    if (!handoff.handoff_id().empty()) {
      const auto found = reservations_->find(handoff.handoff_id());
      const auto target = found == reservations_->end() ? nullptr : found->second.lock();
      if (target == nullptr || !target->worker->alive_ || target->attempt != handoff.attempt()) {
        return Refuse(call, absl::AbortedError("nobody takes the KV"));
      }
      wire::DecodeResponse committed;
      committed.mutable_committed()->set_winner(handoff.attempt());
      target->worker->Tell(target->call, committed);
      target->positions.set_received(length - target->positions.reused());
      Run(target);
    }
    response = {};
    *response.mutable_done()->mutable_positions() = positions;
    Tell(call, response);
  };
  Enqueue({call, ChainOf(request.spec()), length, finish});
}

// ---- Sessions ----

void ScaleWorker::Decode(const ScaleCallPtr& call, const wire::DecodeRequest& request) {
  if (request.has_reserve()) return Reserve(call, request.reserve());
  const auto found = sessions_.find(call.get());
  if (found == sessions_.end()) return;
  if (request.has_move_to()) return MoveTo(found->second.get(), request.move_to());
  if (!request.has_attempt()) return;
  found->second->attempt = request.attempt().attempt();
  wire::DecodeResponse response;
  response.mutable_attempt_open()->set_attempt(found->second->attempt);
  Tell(call, response);
}

void ScaleWorker::Reserve(const ScaleCallPtr& call, const wire::Reserve& reserve) {
  const wire::GenerationSpec& spec = reserve.spec();
  const uint64_t tokens = uint64_t{spec.prompt_length()} + spec.max_tokens();
  if (!alive_ || draining_) return Refuse(call, absl::UnavailableError("draining"));
  if (!HasRoom(tokens)) return Refuse(call, absl::ResourceExhaustedError("no KV blocks are free"));
  auto session = std::make_shared<Session>();
  session->worker = this;
  session->call = call;
  session->handoff_id = reserve.handoff_id();
  session->chain = ChainOf(spec);
  session->length = static_cast<uint32_t>(spec.token_ids_size());
  session->index = session->first_index = session->length - spec.prompt_length();
  session->max_tokens = spec.max_tokens();
  session->blocks = static_cast<uint32_t>((tokens + router::kBlockTokens - 1) / router::kBlockTokens);
  session->positions.set_reused(std::min(cache_.Held(session->chain), session->length - 1));
  blocks_used_ += session->blocks;
  Take(call);
  sessions_.emplace(call.get(), session);
  reservations_->emplace(session->handoff_id, session);
  wire::DecodeResponse response;
  *response.mutable_reserved()->mutable_identity() = identity_;
  response.mutable_reserved()->set_kv_address(address_);
  response.mutable_reserved()->set_positions_held(session->positions.reused());
  Tell(call, response);
  if (reserve.source() != wire::SOURCE_COMPUTED) return;
  Enqueue({call, session->chain, session->length, [session](uint32_t held) {
             session->positions.set_reused(held);
             session->positions.set_computed(session->length - held);
             Run(session);
           }});
}

void ScaleWorker::MoveTo(Session* session, const wire::MoveTo& move) {
  const auto found = reservations_->find(move.handoff_id());
  const auto target = found == reservations_->end() ? nullptr : found->second.lock();
  if (target == nullptr || !target->worker->alive_) {
    wire::DecodeResponse response;
    response.mutable_move_failed()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
    return Tell(session->call, response);
  }
  target->positions.set_received(target->length - target->positions.reused());
  Run(target);
  EndSession(session, wire::END_REASON_MOVED);
}

void ScaleWorker::Run(const std::shared_ptr<Session>& session) {
  session->running = true;
  session->worker->cache_.Keep(session->chain);
  SelectLater(session);
}

void ScaleWorker::SelectLater(const std::shared_ptr<Session>& session) {
  const bool first = session->index == session->first_index;  // it came with the KV, or with the prompt's last position
  session->worker->world_->After(first ? kScaleLatency : kTokenGap, nullptr, [session, first] {
    ScaleWorker* worker = session->worker;
    if (!session->call->open || !session->running || !worker->alive_) return;
    wire::Positions& positions = session->positions;
    if (!first) {
      positions.set_computed(positions.computed() + 1);
      ++worker->assigned_;
    }
    positions.set_kv_ready(session->length + session->index - session->first_index);
    wire::DecodeResponse response;
    *response.mutable_selected() = SelectedOf(session->index++, session->max_tokens, positions);
    session->call->on_decode(response);
    if (session->index == session->max_tokens) return EndSession(session.get(), wire::END_REASON_LENGTH);
    if (session->call->open) SelectLater(session);
  });
}

void ScaleWorker::EndSession(Session* session, wire::EndReason reason) {
  session->running = false;
  wire::DecodeResponse response;
  response.mutable_ended()->set_reason(reason);
  *response.mutable_ended()->mutable_positions() = session->positions;
  session->worker->Tell(session->call, response);
}

}  // namespace kvrelay::sim
