// The forward pass: rows of many sequences at once, prompt chunks and single tokens alike, by the numerics contract.
// What a row gives depends on its sequence's cache and position alone, never on the other rows, the chunking or the
// number of threads.
//
// Not thread-safe: one compute loop owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/kv/sequence_cache.h"
#include "common/model/model.h"
#include "common/model/thread_pool.h"

namespace kvrelay::model {

// Consecutive input positions of one sequence.
struct Chunk {
  kv::SequenceCache* cache;          // holds positions 0..first_position-1; receives these
  absl::Span<const int32_t> tokens;  // inputs at first_position, first_position + 1, ...; not empty
  int first_position;
  int logits_wanted;  // of that many last rows
  int drafts = 0;     // that many last rows are guesses: stored in the cache, not published

  // Filled by Run. `error` is INTERNAL, naming layer and position, if a key or value of this chunk is not finite; the
  // other chunks are unaffected. (Logits are checked where a token is chosen.)
  absl::Status error;
  uint32_t computed = 0;        // positions computed
  uint32_t appended = 0;        // positions published in the cache
  int usable_drafts = 0;        // guesses, from the first on, whose keys and values are finite
  uint32_t positions_read = 0;  // distinct positions read
  // (query, key) pairs, per head and layer; the last layer, whose attention serves logits alone, forms less.
  uint64_t attention_pairs = 0;
};

class Forward {
 public:
  // Workspace for up to `max_rows` rows in a step, `max_logits` of them that want logits and `max_positions` positions
  // in a sequence. `model` and `pool` must outlive it.
  static absl::StatusOr<std::unique_ptr<Forward>> Create(const Model* model, ThreadPool* pool, int max_rows,
                                                         int max_logits, int max_positions);

  // Called in each layer, on the calling thread, when all chunks' keys and values of that layer are in the caches.
  using LayerDone = std::function<void(int layer)>;

  // Runs all chunks. REQUIRES: the sum of their rows <= max_rows; caches have capacity; one chunk per cache. Publishes
  // the new positions, drafts left out, in each cache whose chunk had no error.
  void Run(absl::Span<Chunk> chunks, const LayerDone& layer_done);

  // Logits [vocabulary] of row number `row` of those for which chunk number `index` of the last Run wanted them.
  // REQUIRES: it has no error.
  absl::Span<const float> Logits(int index, int row = 0) const;
  ~Forward();

 private:
  struct State;
  explicit Forward(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvrelay::model
