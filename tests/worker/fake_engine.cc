#include "tests/worker/fake_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/engine/validate.h"

namespace kvrelay::testing {

using engine::KvSource;
using sampling::EndReason;

std::vector<std::byte> FakeKv(const kv::KvLayout& layout, int layer, int position, int32_t token) {
  std::vector<std::byte> bytes(layout.PositionBytes());
  uint32_t state = 12345u + 7919u * layer + 104729u * position + 1299709u * token;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    state = state * 1664525u + 1013904223u;
    const uint16_t half = 0x3C00 | (state >> 22);  // 1 to 2 in f16; as f32 finite as well
    std::memcpy(&bytes[i], &half, 2);
  }
  return bytes;
}

void WriteFakeKv(kv::SequenceCache& cache, int layer, int first, absl::Span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int position = first + static_cast<int>(i);
    cache.CopyIn(layer, position, 1, FakeKv(cache.layout(), layer, position, tokens[i]));
  }
}

int32_t FakeNextToken(absl::Span<const int32_t> history, int vocabulary) {
  uint32_t sum = 17;
  for (int32_t token : history) sum = sum * 31 + token;
  return static_cast<int32_t>(10 + sum % (vocabulary - 10));
}

FakeEngine::FakeEngine(const FakeEngineOptions& options)
    : options_(options), pool_(*kv::BlockPool::Create(options.layout, options.blocks)), loop_([this] { Loop(); }) {}

FakeEngine::~FakeEngine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  loop_.join();
}

void FakeEngine::Allow(int64_t units) {
  {
    std::lock_guard lock(mutex_);
    allowed_ = units;
  }
  wake_.notify_all();
}

absl::StatusOr<std::shared_ptr<engine::Session>> FakeEngine::Reserve(engine::SessionSpec spec) {
  KV_RETURN_IF_ERROR(engine::ValidateSpec(spec, options_.vocabulary, options_.context_length));
  KV_ASSIGN_OR_RETURN(std::shared_ptr<kv::SequenceCache> cache,
                      kv::SequenceCache::Reserve(pool_.get(), engine::PositionsNeeded(spec)));
  std::lock_guard lock(mutex_);
  last_cache_ = cache;
  return std::make_shared<engine::Session>(std::move(spec), std::move(cache), Clock::Real()->Now());
}

void FakeEngine::Start(std::shared_ptr<engine::Session> session, std::shared_ptr<engine::SessionListener> listener) {
  Enqueue({Command::kStart, std::move(session), std::move(listener)});
}

void FakeEngine::Stop(const std::shared_ptr<engine::Session>& session, EndReason reason) {
  Enqueue({Command::kStop, session, nullptr, reason});
}

void FakeEngine::Hold(const std::shared_ptr<engine::Session>& session) {
  before_hold_();
  Enqueue({Command::kHold, session});
}
void FakeEngine::Resume(const std::shared_ptr<engine::Session>& session) {
  Enqueue({Command::kResume, session});
  ++resumes_;
}

void FakeEngine::Enqueue(Command command) {
  {
    std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  wake_.notify_all();
}

engine::EngineLoad FakeEngine::Load() const {
  std::lock_guard lock(mutex_);
  return {.beat = beat_,
          .steps = steps_,
          .kv_blocks_total = static_cast<uint32_t>(pool_->total()),
          .kv_blocks_referenced = static_cast<uint32_t>(pool_->referenced()),
          .kv_blocks_cached = 0,
          .active_sessions = 0,
          .queued_sessions = 0,
          .pending_prompt_tokens = 0,
          .prompt_tokens_per_second = 0,
          .prefix_cache_queries = pool_->prefix_counts().asked,
          .prefix_cache_hits = pool_->prefix_counts().found};
}

const model::Model& FakeEngine::model() const {
  KV_CHECK(false, "the fake engine has no model");
  std::abort();
}

bool FakeEngine::WaitUntilFree() const {
  for (int i = 0; i < 10000; ++i) {
    if (referenced() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

std::shared_ptr<kv::SequenceCache> FakeEngine::last_cache() const {
  std::lock_guard lock(mutex_);
  return last_cache_.lock();
}

void FakeEngine::Loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    TakeCommands(lock);
    ++beat_;
    const uint64_t beat = beat_;
    const bool may_run = allowed_ > 0 && Runnable();
    if (may_run) --allowed_;
    lock.unlock();
    for (Live& live : live_) live.listener->OnBeat(beat, live.queued, static_cast<uint32_t>(live.counts.computed));
    if (may_run) {
      const auto next = std::find_if(live_.begin(), live_.end(), [](const Live& l) { return !l.held; });
      Live live = std::move(*next);
      live_.erase(next);
      if (Unit(live)) live_.push_back(std::move(live));
    }
    lock.lock();
    steps_ += may_run;
    if (!may_run) {
      wake_.wait_for(lock, std::chrono::milliseconds(20),
                     [this] { return stopping_ || !commands_.empty() || (allowed_ > 0 && Runnable()); });
    }
  }
  lock.unlock();
  while (!live_.empty()) {
    Live live = std::move(live_.front());
    live_.pop_front();
    End(std::move(live), absl::UnavailableError("the engine stops"), EndReason::kNone);
  }
}

void FakeEngine::TakeCommands(std::unique_lock<std::mutex>& lock) {
  std::vector<Command> commands;
  commands.swap(commands_);
  lock.unlock();
  for (Command& command : commands) Obey(std::move(command));
  commands.clear();
  lock.lock();
}

void FakeEngine::Obey(Command command) {
  if (command.kind == Command::kStart) {
    Live live;
    live.history = command.session->spec().tokens;
    live.counts.received = live.counts.kv_ready = command.session->cache()->kv_ready();
    const std::vector<int32_t>& selected = command.session->received_selected();
    live.history.insert(live.history.end(), selected.begin(), selected.end());
    live.session = std::move(command.session);
    live.listener = std::move(command.listener);
    live_.push_back(std::move(live));
    return;
  }
  const auto it = std::find_if(live_.begin(), live_.end(), [&](const Live& l) { return l.session == command.session; });
  command.session.reset();
  if (it == live_.end()) return;
  if (command.kind != Command::kStop) {
    it->held = command.kind == Command::kHold;
    if (it->held) it->listener->OnHeld();
    return;
  }
  Live live = std::move(*it);
  live_.erase(it);
  const bool cancelled = command.reason == EndReason::kNone;
  End(std::move(live), cancelled ? absl::CancelledError("stopped") : absl::OkStatus(), command.reason);
}

bool FakeEngine::Runnable() const {
  return std::any_of(live_.begin(), live_.end(), [](const Live& live) { return !live.held; });
}

void FakeEngine::End(Live live, const absl::Status& status, EndReason reason) {
  live.session.reset();
  live.listener->OnEnded(status, reason, live.counts);
}

bool FakeEngine::Unit(Live& live) {
  kv::SequenceCache& cache = *live.session->cache();
  const int first = cache.kv_ready(), total = static_cast<int>(live.history.size());
  if (first == total) return Select(live);
  live.queued = false;
  const int end = std::min(first + options_.chunk, total);
  WriteFakeKv(cache, live.layer, first, absl::MakeConstSpan(live.history).subspan(first, end - first));
  live.listener->OnLayer(live.layer, first, end, end == total);
  if (++live.layer < options_.layout.layers) return true;
  live.layer = 0;
  cache.Publish(end - first);
  live.counts.computed += end - first;
  live.counts.kv_ready += end - first;
  live.run.computed += end - first;
  live.run.rows_in_step_max = std::max<uint32_t>(live.run.rows_in_step_max, end - first);
  return true;
}

bool FakeEngine::Select(Live& live) {
  const engine::SessionSpec& spec = live.session->spec();
  const auto index = static_cast<uint32_t>(live.history.size()) - spec.prompt_length;
  engine::SelectedToken token{.index = index, .selection = {}, .end = EndReason::kNone, .counts = {}, .run = live.run};
  token.selection.token = FakeNextToken(live.history, options_.vocabulary);
  token.selection.logprob = -0.5f;
  for (int i = 0; i < spec.logprobs; ++i) token.selection.top.push_back({i, -1.0f - i});
  live.history.push_back(token.selection.token);
  live.run = {};
  if (spec.source == KvSource::kNoCache) {
    live.counts.discarded += live.counts.kv_ready;
    live.counts.kv_ready = 0;
    live.session->cache()->Clear();
  }
  token.counts = live.counts;
  token.end = sampling::EndsRequest(spec.end_rule, index + 1, token.selection.token);
  live.listener->OnSelected(token);
  if (token.end == EndReason::kNone && !spec.stop_after_first) return true;
  End(std::move(live), absl::OkStatus(), token.end);
  return false;
}

}  // namespace kvrelay::testing
