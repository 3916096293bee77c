// Chooses a token from logits. Pure: the result depends on the arguments alone, so any worker, retry or replay gives
// the same token. Candidates are ordered by (score descending, id ascending); one random number f(seed, 0, position)
// decides. Any thread may call any function.
//
// Options apply in this order: only selectable ids are candidates; scores are logits with bias and penalties
// (logit_adjuster.h), divided by the temperature (0: the first candidate is taken, what follows does not matter); top_k
// keeps the first k; top_p keeps the shortest prefix with at least that share of the probability that top_k left; min_p
// drops what is less likely than that share of the first. At least one always stays. The draw is then by softmax over
// what is left.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sampling/id_ranges.h"

namespace kvrelay::sampling {

struct SamplingParams {
  float temperature = 0;  // 0 is greedy
  uint32_t top_k = 0;     // 0 keeps all
  float top_p = 1;        // 1 keeps all
  float min_p = 0;        // 0 keeps all
  uint64_t seed = 0;
};

// INVALID_ARGUMENT naming the field, the value and the range (see generation.proto).
absl::Status Validate(const SamplingParams& params);

struct TopToken {
  int32_t id;
  float logprob;
};

struct Selection {
  int32_t token;
  float logprob;              // log-softmax of the raw logits; 0 if logprobs == 0
  std::vector<TopToken> top;  // `logprobs` of them, best first
};

// What there is to choose from.
struct Candidates {
  absl::Span<const float> logits;        // raw, [vocabulary]
  absl::Span<const float> scores;        // [vocabulary]; `logits` themselves if no option changes them
  absl::Span<const IdRange> selectable;  // ascending, disjoint; what is beyond the vocabulary is ignored
};

// `position` is the absolute position of the new token (prompt + tokens selected before). All ids count in
// log-probabilities, selectable or not. INTERNAL if a logit is not finite or nothing is selectable. REQUIRES:
// Validate(params) is OK; scores are finite where logits are.
absl::StatusOr<Selection> Select(const Candidates& candidates, const SamplingParams& params, uint64_t position,
                                 int logprobs);

// f(seed, choice, position): uniform in [0, 1), 24 bits: the first word of Philox4x32-10 (philox.h) with key `seed` and
// counter (position, choice, 0).
float RandomUniform(uint64_t seed, uint32_t choice, uint64_t position);

}  // namespace kvrelay::sampling
