// What one request is to the engine: what it asks for, what it is told, and what is counted about it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/kv/sequence_cache.h"
#include "common/sampling/end_rule.h"
#include "common/sampling/sampler.h"
#include "common/sampling/sequence_sampler.h"

namespace kvrelay::engine {

// Counts of one worker for one request: kv_ready = reused + received + computed - discarded, CHECKed after each step.
struct PositionCounts {
  uint64_t computed = 0;    // counted in Forward
  uint32_t reused = 0;      // held when the session was reserved
  uint32_t received = 0;    // counted by the receiver
  uint32_t shipped = 0;     // set by the sender from the receipt
  uint64_t recomputed = 0;  // the part of computed that an earlier run had computed
  uint64_t discarded = 0;
  uint64_t drafted = 0;   // the part of computed that were guesses; right ones are kept, wrong ones discarded
  uint64_t accepted = 0;  // guesses that were right
  uint32_t kv_ready = 0;
};

// Input positions of one step of a run.
struct RunChunk {
  uint32_t first_position, end_position;
  absl::Duration start;  // since the session was reserved
  absl::Duration duration;
};

// What one run did: all the work between two selections. A step that checks guesses makes a run for each token that it
// selects; the first has the time.
struct RunRecord {
  uint32_t first_position = 0;
  uint32_t end_position = 0;
  uint32_t computed = 0;
  uint32_t recomputed = 0;
  uint32_t appended = 0;
  uint32_t positions_read = 0;
  uint64_t attention_pairs = 0;                 // per layer and head
  uint64_t flops = 0;                           // see model::RunFlops
  uint64_t kv_bytes_read = 0;                   // of positions that were in the cache before
  uint32_t rejected = 0;                        // wrong guesses behind its selection; not in the counts above
  uint32_t rows_in_step_max = 0;                // most rows, of all sessions, in one of its steps
  absl::Duration start = absl::ZeroDuration();  // since the session was reserved
  absl::Duration duration = absl::ZeroDuration();
  static constexpr size_t kChunksMax = 1024;
  std::vector<RunChunk> chunks;  // of a run of several steps, the first kChunksMax
};

struct SelectedToken {
  uint32_t index;  // in the request, history included
  sampling::Selection selection;
  sampling::EndReason end;
  PositionCounts counts;
  RunRecord run;
};

// Where the KV of the prompt comes from.
enum class KvSource { kComputed, kReceived, kNoCache };

struct SessionSpec : sampling::SelectionSpec {
  std::vector<int32_t> tokens;  // prompt, then history
  uint32_t prompt_length = 0;   // 1..tokens.size()
  KvSource source = KvSource::kComputed;
  std::string cache_salt;         // KV is shared with requests of the same salt; not used without a cache
  int priority = 0;               // each step counts as 10 s of waiting, where prompts wait for their turn
  bool stop_after_first = false;  // a prefill: one selection, then the end
};

// Told about one session, on the compute thread, in order. Must not block and must not call the engine's waiting
// methods.
class SessionListener {
 public:
  virtual ~SessionListener() = default;
  // The loop lives: at least every 500 ms from Start to OnEnded. `queued`: no step was made yet.
  virtual void OnBeat(uint64_t beat, bool queued, uint32_t computed) {}
  // Layer `layer` of input positions [first, end) is computed and stored in the cache. `last_chunk`: these are the last
  // of the prompt.
  virtual void OnLayer(int layer, int first, int end, bool last_chunk) {}
  // Raw logits [vocabulary] from which the next token is about to be chosen; valid during the call.
  virtual void OnLogits(absl::Span<const float> logits) {}
  virtual void OnSelected(const SelectedToken& token) = 0;
  // In answer to Engine::Hold: no step runs with this session until Resume.
  virtual void OnHeld() {}
  // Last call. OK with the reason, or the error (CANCELLED after Stop). The engine has let go of the cache.
  virtual void OnEnded(const absl::Status& status, sampling::EndReason reason, const PositionCounts& counts) = 0;
};

// One request in one engine. Made by Engine::Reserve, shared with the RPC that owns the reservation; its KV blocks are
// free when the last of both lets go.
class Session {
 public:
  Session(SessionSpec spec, std::shared_ptr<kv::SequenceCache> cache, absl::Duration reserved_at)
      : spec_(std::move(spec)), cache_(std::move(cache)), reserved_at_(reserved_at) {}

  const SessionSpec& spec() const { return spec_; }
  const std::shared_ptr<kv::SequenceCache>& cache() const { return cache_; }
  absl::Duration reserved_at() const { return reserved_at_; }

  // For KvSource::kReceived, before Start: `selected` follow spec.tokens, and the receiver has published the KV of all
  // but the last of them.
  void SetReceived(std::vector<int32_t> selected) { received_selected_ = std::move(selected); }
  const std::vector<int32_t>& received_selected() const { return received_selected_; }

 private:
  const SessionSpec spec_;
  const std::shared_ptr<kv::SequenceCache> cache_;
  const absl::Duration reserved_at_;
  std::vector<int32_t> received_selected_;
};

}  // namespace kvrelay::engine
