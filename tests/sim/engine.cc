#include "tests/sim/engine.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/engine/reserve_cache.h"
#include "common/engine/step_plan.h"
#include "common/engine/validate.h"
#include "tests/sim/model.h"

namespace kvrelay::sim {
namespace {

constexpr int kPromptRows = 64;  // in one step
constexpr absl::Duration kStepCost = absl::Milliseconds(20);
constexpr absl::Duration kRowCost = absl::Microseconds(100);
constexpr absl::Duration kBeatInterval = absl::Milliseconds(500);

}  // namespace

SimEngine::SimEngine(World* world, Process* process, int blocks, std::function<void(std::string)> violation)
    : world_(world),
      process_(process),
      violation_(std::move(violation)),
      numerics_id_(kNumerics),
      pool_(*kv::BlockPool::Create(kLayout, blocks)) {
  Later(world_->Pick(absl::ZeroDuration(), kBeatInterval), [this] { Beat(); });
}

int SimEngine::context_length() const { return kContextLength; }

const model::Model& SimEngine::model() const {
  KV_CHECK(false, "the simulated engine has no weights");
  std::abort();
}

absl::StatusOr<std::shared_ptr<engine::Session>> SimEngine::Reserve(engine::SessionSpec spec) {
  KV_RETURN_IF_ERROR(engine::ValidateSpec(spec, kVocabulary, kContextLength));
  KV_ASSIGN_OR_RETURN(std::shared_ptr<kv::SequenceCache> cache, engine::ReserveCache(pool_.get(), spec));
  std::erase_if(caches_, [](const auto& entry) { return entry.second.expired(); });
  caches_.emplace_back(spec.sampling.seed, cache);
  ++reserved_;
  return std::shared_ptr<engine::Session>(new engine::Session(std::move(spec), std::move(cache), world_->Now()),
                                          [this](engine::Session* session) {
                                            delete session;
                                            --reserved_;
                                          });
}

void SimEngine::Start(std::shared_ptr<engine::Session> session, std::shared_ptr<engine::SessionListener> listener) {
  Enqueue({Command::kStart, std::move(session), std::move(listener)});
}
void SimEngine::Stop(const std::shared_ptr<engine::Session>& session, sampling::EndReason reason) {
  Enqueue({Command::kStop, session, nullptr, reason});
}
void SimEngine::Hold(const std::shared_ptr<engine::Session>& session) { Enqueue({Command::kHold, session}); }
void SimEngine::Resume(const std::shared_ptr<engine::Session>& session) { Enqueue({Command::kResume, session}); }

engine::EngineLoad SimEngine::Load() const {
  engine::EngineLoad load{.beat = beat_,
                          .steps = steps_,
                          .kv_blocks_total = static_cast<uint32_t>(pool_->total()),
                          .kv_blocks_referenced = static_cast<uint32_t>(pool_->referenced()),
                          .kv_blocks_cached = static_cast<uint32_t>(pool_->cached()),
                          .active_sessions = static_cast<uint32_t>(reserved_),
                          .queued_sessions = 0,
                          .pending_prompt_tokens = 0,
                          .prompt_tokens_per_second = 0,
                          .prefix_cache_queries = pool_->prefix_counts().asked,
                          .prefix_cache_hits = pool_->prefix_counts().found};
  for (const engine::LiveSession& live : live_) {
    load.queued_sessions += live.queued();
    if (live.InPrompt()) load.pending_prompt_tokens += live.PendingRows();
  }
  return load;
}

bool SimEngine::HoldsKv(uint64_t seed) const {
  return std::any_of(caches_.begin(), caches_.end(),
                     [&](const auto& entry) { return entry.first == seed && !entry.second.expired(); });
}

void SimEngine::Enqueue(Command command) {
  if (buried_) return;
  commands_.push_back(std::move(command));
  if (std::exchange(busy_, true)) return;
  Later(absl::Microseconds(20), [this] { Loop(); });
}

void SimEngine::Later(absl::Duration delay, Task next) {
  world_->After(delay, process_, [this, next = std::move(next)]() mutable {
    if (buried_) return;
    if (hung_) return stopped_.push_back(std::move(next));
    next();
  });
}

void SimEngine::Loop() {
  busy_ = false;
  for (Command& command : std::exchange(commands_, {})) Obey(std::move(command));
  if (Runnable()) return BeginStep();
  if (commands_.empty() || std::exchange(busy_, true)) return;
  Later(absl::Microseconds(20), [this] { Loop(); });
}

void SimEngine::Obey(Command command) {
  if (command.kind == Command::kStart) {
    std::vector<int32_t> history = command.session->spec().tokens;
    const std::vector<int32_t>& selected = command.session->received_selected();
    history.insert(history.end(), selected.begin(), selected.end());
    CheckKv(*command.session, history, "received");
    live_.emplace_back(std::move(command.session), std::move(command.listener));
    return;
  }
  const auto it = std::find_if(live_.begin(), live_.end(),
                               [&](const engine::LiveSession& l) { return &l.session() == command.session.get(); });
  if (it == live_.end()) return;
  if (command.kind == Command::kStop) {
    const bool cancelled = command.reason == sampling::EndReason::kNone;
    command.session.reset();
    return End(it, cancelled ? absl::CancelledError("stopped by the owner") : absl::OkStatus(), command.reason);
  }
  it->set_held(command.kind == Command::kHold);
  if (it->held()) it->listener().OnHeld();
}

bool SimEngine::Runnable() const {
  return std::any_of(live_.begin(), live_.end(), [](const engine::LiveSession& live) { return !live.held(); });
}

void SimEngine::BeginStep() {
  busy_ = true;
  std::vector<int> pending;
  for (const engine::LiveSession& live : live_) pending.push_back(live.held() ? 0 : live.PendingRows());
  const std::vector<int> rows = engine::PlanStep(pending, {.max_rows = 1024, .prompt_rows = kPromptRows});
  int total = std::accumulate(rows.begin(), rows.end(), 0);
  int guesses = engine::GuessesThatFit(pending, rows, kDraftTokens);
  auto stream = live_.begin();
  for (size_t i = 0; i < rows.size() && guesses > 0; ++i, ++stream) {
    const int made = rows[i] > 0 ? stream->Draft(guesses) : 0;
    guesses -= made;
    total += made;
  }
  chunks_.clear();
  in_step_.clear();
  auto it = live_.begin();
  for (size_t i = 0; i < rows.size(); ++i, ++it) {
    if (rows[i] == 0) continue;
    it->BeginStep(world_->Now(), total);
    chunks_.push_back(it->MakeChunk(rows[i]));
    in_step_.push_back(it);
  }
  const absl::Duration layer_time = (kStepCost + kRowCost * total) * slowness_ / kLayout.layers;
  for (int layer = 0; layer < kLayout.layers; ++layer)
    Later(layer_time * (layer + 1), [this, layer] { LayerDone(layer); });
}

void SimEngine::LayerDone(int layer) {
  for (size_t i = 0; i < chunks_.size(); ++i) {
    const model::Chunk& chunk = chunks_[i];
    WriteKv(chunk.cache, layer, chunk.first_position, chunk.tokens);
    const int end = chunk.first_position + static_cast<int>(chunk.tokens.size()) - chunk.drafts;
    in_step_[i]->listener().OnLayer(layer, chunk.first_position, end, chunk.logits_wanted > 0);
  }
  if (layer == kLayout.layers - 1) EndStep();
}

void SimEngine::EndStep() {
  ++steps_;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    model::Chunk& chunk = chunks_[i];
    const Live live = in_step_[i];
    chunk.computed = static_cast<uint32_t>(chunk.tokens.size());
    chunk.appended = chunk.computed - chunk.drafts;
    chunk.usable_drafts = chunk.drafts;
    chunk.positions_read = chunk.first_position + chunk.computed;
    chunk.cache->Publish(static_cast<int>(chunk.appended));
    live->Count(chunk, world_->Now());
    if (chunk.logits_wanted == 0) continue;
    // Up to its last row, a chunk that wants logits is the history.
    bool ended;
    do {
      const std::vector<int32_t> history = live->history();
      FillLogits(history, &logits_);
      const auto token = live->Select(logits_, world_->Now(), &scores_);
      KV_CHECK(token.ok(), "the model's logits are sound");
      live->listener().OnSelected(*token);
      ended = token->end != sampling::EndReason::kNone || live->session().spec().stop_after_first;
      if (!ended) continue;
      CheckKv(live->session(), history, "kept");
      End(live, absl::OkStatus(), token->end);
    } while (!ended && live->TakeGuess(world_->Now()));
  }
  Loop();
}

void SimEngine::End(Live live, const absl::Status& status, sampling::EndReason reason) {
  std::list<engine::LiveSession> ended;
  ended.splice(ended.begin(), live_, live);
  const engine::PositionCounts counts = ended.front().EndCounts();
  const std::shared_ptr<engine::SessionListener> listener = ended.front().shared_listener();
  ended.clear();
  listener->OnEnded(status, reason, counts);
}

void SimEngine::Beat() {
  ++beat_;
  for (engine::LiveSession& live : live_)
    live.listener().OnBeat(beat_, live.queued(), static_cast<uint32_t>(live.counts().computed));
  Later(kBeatInterval, [this] { Beat(); });
}

void SimEngine::CheckKv(const engine::Session& session, absl::Span<const int32_t> history, const char* when) {
  const int wrong = FirstWrongPosition(*session.cache(), history);
  if (wrong >= 0) violation_(absl::StrCat("wrong KV ", when, " at position ", wrong));
}

void SimEngine::Hang(bool hung) {
  hung_ = hung;
  if (hung_) return;
  for (Task& next : std::exchange(stopped_, {})) world_->After(absl::ZeroDuration(), process_, std::move(next));
}

void SimEngine::Bury() {
  buried_ = true;
  commands_.clear();
  stopped_.clear();
  in_step_.clear();
  chunks_.clear();
  live_.clear();
}

}  // namespace kvrelay::sim
