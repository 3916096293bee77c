#include "common/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <numeric>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/engine/live_session.h"
#include "common/engine/reserve_cache.h"
#include "common/engine/step_plan.h"
#include "common/engine/validate.h"
#include "common/model/flops.h"

namespace kvrelay::engine {
namespace {

// Bits change with this number: raise it whenever the numerics contract changes.
constexpr int kNumericsVersion = 1;
constexpr absl::Duration kBeatInterval = absl::Milliseconds(250);
// A prompt advances at least this much per step, whatever the budget says.
constexpr int kLeastPromptRows = 16;
constexpr absl::Duration kPriorityStep = absl::Seconds(10);

class EngineImpl final : public Engine {
 public:
  EngineImpl(const model::Model* model, const EngineOptions& options, const Clock* clock,
             std::unique_ptr<kv::BlockPool> pool)
      : model_(*model),
        options_(options),
        clock_(*clock),
        numerics_id_(absl::StrCat(kNumericsVersion, "-", model->weight_format(), "-",
                                  std::string(kv::KvTypeName(options.kv_type)), "-",
                                  std::string(kernels::MatmulBackendName(model->backend())))),
        pool_(std::move(pool)),
        threads_(options.threads, options.cpus) {}

  absl::Status Init() {
    // One more row than sessions, so that a prompt always finds room beside all streams.
    KV_ASSIGN_OR_RETURN(
        forward_, model::Forward::Create(&model_, &threads_, MaxRows(), options_.max_sessions + options_.draft_tokens,
                                         options_.context_length));
    loop_ = std::thread([this] { Loop(); });
    return absl::OkStatus();
  }

  ~EngineImpl() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    if (loop_.joinable()) loop_.join();
  }

  absl::StatusOr<std::shared_ptr<Session>> Reserve(SessionSpec spec) override {
    KV_RETURN_IF_ERROR(ValidateSpec(spec, model_.config().vocabulary, options_.context_length));
    if (sessions_.fetch_add(1) >= options_.max_sessions) {
      sessions_.fetch_sub(1);
      return absl::ResourceExhaustedError(
          absl::StrCat("all ", options_.max_sessions, " sessions are taken; try again later"));
    }
    auto cache = ReserveCache(pool_.get(), spec);
    if (!cache.ok()) {
      sessions_.fetch_sub(1);
      return cache.status();
    }
    return std::shared_ptr<Session>(new Session(std::move(spec), *std::move(cache), clock_.Now()),
                                    [this](Session* session) {
                                      delete session;
                                      sessions_.fetch_sub(1);
                                    });
  }

  void Start(std::shared_ptr<Session> session, std::shared_ptr<SessionListener> listener) override {
    absl::MutexLock lock(&mutex_);
    commands_.push_back({Command::kStart, std::move(session), std::move(listener)});
  }

  void Stop(const std::shared_ptr<Session>& session, sampling::EndReason reason) override {
    absl::MutexLock lock(&mutex_);
    commands_.push_back({Command::kStop, session, nullptr, reason});
  }

  void Hold(const std::shared_ptr<Session>& session) override {
    absl::MutexLock lock(&mutex_);
    commands_.push_back({Command::kHold, session});
  }

  void Resume(const std::shared_ptr<Session>& session) override {
    absl::MutexLock lock(&mutex_);
    commands_.push_back({Command::kResume, session});
  }

  EngineLoad Load() const override {
    const kv::BlockPool::PrefixCounts prefix = pool_->prefix_counts();
    return {.beat = beat_.load(std::memory_order_relaxed),
            .steps = steps_.load(std::memory_order_relaxed),
            .kv_blocks_total = static_cast<uint32_t>(pool_->total()),
            .kv_blocks_referenced = static_cast<uint32_t>(pool_->referenced()),
            .kv_blocks_cached = static_cast<uint32_t>(pool_->cached()),
            .active_sessions = static_cast<uint32_t>(sessions_.load(std::memory_order_relaxed)),
            .queued_sessions = queued_.load(std::memory_order_relaxed),
            .pending_prompt_tokens = pending_.load(std::memory_order_relaxed),
            .prompt_tokens_per_second = rate_.load(std::memory_order_relaxed),
            .prefix_cache_queries = prefix.asked,
            .prefix_cache_hits = prefix.found};
  }
  int context_length() const override { return options_.context_length; }
  const std::string& numerics_id() const override { return numerics_id_; }
  const kv::KvLayout& kv_layout() const override { return pool_->layout(); }
  const model::Model& model() const override { return model_; }

 private:
  struct Command {
    enum Kind { kStart, kStop, kHold, kResume } kind;
    std::shared_ptr<Session> session;
    std::shared_ptr<SessionListener> listener = nullptr;      // of kStart
    sampling::EndReason reason = sampling::EndReason::kNone;  // of kStop
  };

  void Loop() {
    while (TakeCommands()) {
      CountWaiting();
      Beat();
      if (Runnable()) Step();
      CountWaiting();
    }
    while (!live_.empty())
      End(live_.begin(), absl::UnavailableError("the worker is stopping"), sampling::EndReason::kNone);
  }

  // Waits for work when idle. False when the engine stops.
  bool TakeCommands() {
    std::deque<Command> commands;
    {
      absl::MutexLock lock(&mutex_);
      if (!Runnable()) mutex_.AwaitWithTimeout(absl::Condition(this, &EngineImpl::HasWork), kBeatInterval);
      if (stopping_) return false;
      commands.swap(commands_);
    }
    for (Command& command : commands) Obey(std::move(command));
    return true;
  }

  void Obey(Command command) {
    if (command.kind == Command::kStart) {
      // In order of arrival, with a head start by priority: so none waits for ever.
      const absl::Duration order = Order(*command.session);
      const auto later = std::find_if(live_.begin(), live_.end(),
                                      [&](const LiveSession& live) { return Order(live.session()) > order; });
      live_.insert(later, LiveSession(std::move(command.session), std::move(command.listener)));
      return;
    }
    const auto it = std::find_if(live_.begin(), live_.end(),
                                 [&](const LiveSession& l) { return &l.session() == command.session.get(); });
    if (it == live_.end()) return;
    if (command.kind == Command::kStop) {
      const bool cancelled = command.reason == sampling::EndReason::kNone;
      command.session.reset();  // the owner's reference shall be the last one when it is told
      return End(it, cancelled ? absl::CancelledError("stopped by the owner") : absl::OkStatus(), command.reason);
    }
    it->set_held(command.kind == Command::kHold);
    if (it->held()) it->listener().OnHeld();
  }

  static absl::Duration Order(const Session& session) {
    return session.reserved_at() - session.spec().priority * kPriorityStep;
  }

  int MaxRows() const { return options_.prefill_chunk + options_.max_sessions + options_.draft_tokens; }
  bool Runnable() const {
    return std::any_of(live_.begin(), live_.end(), [](const LiveSession& live) { return !live.held(); });
  }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !commands_.empty(); }

  void End(std::list<LiveSession>::iterator it, const absl::Status& status, sampling::EndReason reason) {
    std::list<LiveSession> ended;
    ended.splice(ended.begin(), live_, it);
    const PositionCounts counts = ended.front().EndCounts();
    const std::shared_ptr<SessionListener> listener = ended.front().shared_listener();
    ended.clear();
    listener->OnEnded(status, reason, counts);
  }

  // Tells that the loop lives, at most every kBeatInterval.
  void Beat() {
    const absl::Duration now = clock_.Now();
    if (now - last_beat_ < kBeatInterval) return;
    last_beat_ = now;
    const uint64_t beat = beat_.fetch_add(1, std::memory_order_relaxed) + 1;
    for (LiveSession& live : live_)
      live.listener().OnBeat(beat, live.queued(), static_cast<uint32_t>(live.counts().computed));
  }

  void CountWaiting() {
    uint32_t queued = 0;
    uint64_t pending = 0;
    for (const LiveSession& live : live_) {
      queued += live.queued();
      if (live.InPrompt()) pending += live.PendingRows();
    }
    queued_.store(queued, std::memory_order_relaxed);
    pending_.store(pending, std::memory_order_relaxed);
  }

  // Rows that prompts may take in this step: bounded by the time budget only while streams are waiting for their next
  // token.
  StepLimits Limits(absl::Span<const int> pending) const {
    const bool streams = std::find(pending.begin(), pending.end(), 1) != pending.end();
    const int rows = streams ? PromptRowsForBudget(absl::ToDoubleSeconds(options_.step_budget), row_cost_s_,
                                                   options_.prefill_chunk, kLeastPromptRows)
                             : options_.prefill_chunk;
    return {.max_rows = MaxRows() - options_.draft_tokens, .prompt_rows = rows};
  }

  void Step() {
    std::vector<int> pending;
    for (const LiveSession& live : live_) pending.push_back(live.held() ? 0 : live.PendingRows());
    const std::vector<int> rows = PlanStep(pending, Limits(pending));
    const absl::Duration began = clock_.Now();
    const int total = std::accumulate(rows.begin(), rows.end(), 0) + Draft(pending, rows);
    chunks_.clear();
    in_step_.clear();
    auto it = live_.begin();
    for (size_t i = 0; i < rows.size(); ++i, ++it) {
      if (rows[i] == 0) continue;
      it->BeginStep(began, total);
      chunks_.push_back(it->MakeChunk(rows[i]));
      in_step_.push_back(it);
    }
    forward_->Run(absl::MakeSpan(chunks_), [this](int layer) { LayerDone(layer); });
    steps_.fetch_add(1, std::memory_order_relaxed);
    const absl::Duration now = clock_.Now();
    if (total >= kLeastPromptRows) {
      const double cost = absl::ToDoubleSeconds(now - began) / total;
      row_cost_s_ = row_cost_s_ == 0 ? cost : 0.8 * row_cost_s_ + 0.2 * cost;
      rate_.store(1 / row_cost_s_, std::memory_order_relaxed);
    }
    for (size_t i = 0; i < chunks_.size(); ++i) FinishChunk(static_cast<int>(i), now);
  }

  // Guesses for the streams of a step; how many.
  int Draft(absl::Span<const int> pending, absl::Span<const int> rows) {
    const int most = GuessesThatFit(pending, rows, options_.draft_tokens);
    int made = 0;
    auto it = live_.begin();
    for (size_t i = 0; i < rows.size() && made < most; ++i, ++it)
      if (rows[i] > 0) made += it->Draft(most - made);
    return made;
  }

  // Keys and values of a layer are in the caches: prompts that are being shipped are told at once.
  void LayerDone(int layer) {
    for (size_t i = 0; i < chunks_.size(); ++i) {
      const model::Chunk& chunk = chunks_[i];
      const int end = chunk.first_position + static_cast<int>(chunk.tokens.size()) - chunk.drafts;
      in_step_[i]->listener().OnLayer(layer, chunk.first_position, end, chunk.logits_wanted > 0);
    }
    Beat();
  }

  void AddCosts(RunRecord& run) const {
    run.flops = model::RunFlops(model_.config(), run.computed + run.recomputed, run.attention_pairs, run.end_position);
    run.kv_bytes_read = run.first_position * uint64_t{pool_->layout().layers * pool_->layout().PositionBytes()};
  }

  void FinishChunk(int index, absl::Duration now) {
    const auto live = in_step_[index];
    const model::Chunk& chunk = chunks_[index];
    live->Count(chunk, now);
    if (!chunk.error.ok()) return End(live, chunk.error, sampling::EndReason::kNone);
    if (chunk.logits_wanted == 0) return;
    int row = 0;
    do {
      const absl::Span<const float> logits = forward_->Logits(index, row++);
      live->listener().OnLogits(logits);
      absl::StatusOr<SelectedToken> token = live->Select(logits, now, &scores_);
      if (!token.ok()) return End(live, token.status(), sampling::EndReason::kNone);
      AddCosts(token->run);
      const sampling::EndReason end = token->end;
      live->listener().OnSelected(*token);
      if (end != sampling::EndReason::kNone || live->session().spec().stop_after_first)
        return End(live, absl::OkStatus(), end);
    } while (live->TakeGuess(now));
  }

  const model::Model& model_;
  const EngineOptions options_;
  const Clock& clock_;
  const std::string numerics_id_;
  const std::unique_ptr<kv::BlockPool> pool_;
  std::atomic<int> sessions_ = 0;

  absl::Mutex mutex_;
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the compute loop alone.
  model::ThreadPool threads_;
  std::unique_ptr<model::Forward> forward_;
  std::list<LiveSession> live_;  // in order of arrival
  std::vector<model::Chunk> chunks_;
  std::vector<std::list<LiveSession>::iterator> in_step_;
  std::vector<float> scores_;  // workspace of selections
  double row_cost_s_ = 0;
  absl::Duration last_beat_ = -absl::InfiniteDuration();

  // Written by the loop, read by anyone.
  std::atomic<uint64_t> beat_ = 0, steps_ = 0, pending_ = 0;
  std::atomic<uint32_t> queued_ = 0;
  std::atomic<double> rate_ = 0;

  std::thread loop_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const model::Model* model, const EngineOptions& options,
                                                       const Clock* clock) {
  const model::ModelConfig& c = model->config();
  EngineOptions checked = options;
  if (checked.context_length == 0) checked.context_length = c.context_length;
  if (checked.context_length < 0 || checked.context_length > c.context_length)
    return absl::InvalidArgumentError(
        absl::StrCat("context length ", options.context_length, " is outside 1 to the model's ", c.context_length));
  if (checked.threads < 1 || checked.threads > 1024 || checked.prefill_chunk < 1 || checked.prefill_chunk > 65536 ||
      checked.max_sessions < 1 || checked.max_sessions > 65536 || checked.kv_blocks < 1 || checked.draft_tokens < 0 ||
      checked.draft_tokens > 64)
    return absl::InvalidArgumentError("threads, prefill chunk, sessions, KV blocks or draft tokens are out of range");
  const kv::KvLayout layout{
      .layers = c.layers, .kv_heads = c.kv_heads, .head_dim = c.head_dim, .type = checked.kv_type};
  KV_ASSIGN_OR_RETURN(std::unique_ptr<kv::BlockPool> pool, kv::BlockPool::Create(layout, checked.kv_blocks));
  auto engine = std::make_unique<EngineImpl>(model, checked, clock, std::move(pool));
  KV_RETURN_IF_ERROR(engine->Init());
  return engine;
}

}  // namespace kvrelay::engine
