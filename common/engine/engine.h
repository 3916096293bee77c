// Runs many sessions through one model: one compute loop owns all model state; other threads only enqueue. Each step
// takes rows from all live sessions, prompt chunks and single tokens alike, and is bounded by a time budget.
//
// Thread-safe. Listener methods run on the compute thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/engine/session.h"
#include "common/model/model.h"

namespace kvrelay::engine {

struct EngineOptions {
  int threads = 1;        // compute threads, the loop's own included; >= 1
  std::vector<int> cpus;  // thread i stays on cpus[i]; empty: they are not pinned
  int kv_blocks = 1;      // KV pool, in blocks of 64 positions
  kv::KvType kv_type = kv::KvType::kF16;
  int context_length = 0;                                // longest prompt + max_tokens; 0: the model's
  int prefill_chunk = 512;                               // most prompt rows of one session in one step; >= 1
  absl::Duration step_budget = absl::Milliseconds(200);  // aim for the duration of a step that mixes prompts and tokens
  // Most guessed tokens that a step checks. Own rows of streams and guesses together are at most one more, so many
  // streams leave none; nor does a step with prompt rows check any. 0: no guesses.
  int draft_tokens = 7;
  int max_sessions = 256;  // reserved or running; more are refused
};

struct EngineLoad {
  uint64_t beat;
  uint64_t steps;
  uint32_t kv_blocks_total;
  uint32_t kv_blocks_referenced;
  uint32_t kv_blocks_cached;  // of finished sequences; given up when room is needed
  uint32_t active_sessions;   // reserved or running
  uint32_t queued_sessions;   // started, no step yet
  uint64_t pending_prompt_tokens;
  double prompt_tokens_per_second;  // of recent steps; 0: none was measured yet
  // Tokens of sessions that may begin with the KV of others, and those whose KV they found, since the start.
  uint64_t prefix_cache_queries;
  uint64_t prefix_cache_hits;
};

class Engine {
 public:
  // `model` and `clock` must outlive the engine. RESOURCE_EXHAUSTED if the KV pool does not fit into memory.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const model::Model* model, const EngineOptions& options,
                                                        const Clock* clock);
  // Stops all sessions and the loop. Sessions must be gone before: their owners are.
  virtual ~Engine() = default;

  // Validates the spec (INVALID_ARGUMENT) and takes room for prompt + max_tokens at once, all or nothing, without
  // waiting (RESOURCE_EXHAUSTED). Begins with the KV of whole blocks that sequences of the same salt have left or still
  // use, unless the source is kNoCache. With source kReceived the caller may write to the cache until Start.
  virtual absl::StatusOr<std::shared_ptr<Session>> Reserve(SessionSpec spec) = 0;
  // Hands the session to the loop. REQUIRES: once per session.
  virtual void Start(std::shared_ptr<Session> session, std::shared_ptr<SessionListener> listener) = 0;
  // Ends a started session within one step: OnEnded(reason OK: `reason`, or CANCELLED if kNone). Harmless if it has
  // ended.
  virtual void Stop(const std::shared_ptr<Session>& session, sampling::EndReason reason) = 0;

  // Pauses a started session at the end of the step in progress, and tells its listener (OnHeld); it keeps its place,
  // its signs of life and its KV. Harmless if it has ended.
  virtual void Hold(const std::shared_ptr<Session>& session) = 0;
  // Ends the pause.
  virtual void Resume(const std::shared_ptr<Session>& session) = 0;

  virtual EngineLoad Load() const = 0;
  virtual int context_length() const = 0;
  // Contract version, weight format, cache type, matmul backend; for example "1-Q4_1-f16-native".
  virtual const std::string& numerics_id() const = 0;
  virtual const kv::KvLayout& kv_layout() const = 0;
  virtual const model::Model& model() const = 0;
};

}  // namespace kvrelay::engine
