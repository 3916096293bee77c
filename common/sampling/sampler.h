// Chooses a token from logits. Pure: the result depends on the arguments alone, so any worker, retry or replay gives
// the same token. Candidates are ordered by (logit descending, id ascending); one random number f(seed, 0, position)
// decides. Any thread may call any function.
//
// Options apply in this order: banned ids are removed; logits are divided by the temperature (0: the first candidate is
// taken, no other option matters); top_k keeps the first k; top_p keeps the shortest prefix with at least that share of
// the probability that top_k left; min_p drops what is less likely than that share of the first. At least one always
// stays. The draw is then by softmax over what is left.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

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

// `position` is the absolute position of the new token (prompt + tokens selected before). `banned` ids are not
// selectable but count in log-probabilities; ids outside the vocabulary are ignored. INTERNAL if a logit is not finite
// or nothing is selectable. REQUIRES: Validate(params) is OK.
absl::StatusOr<Selection> Select(absl::Span<const float> logits, const SamplingParams& params, uint64_t position,
                                 absl::Span<const int32_t> banned, int logprobs);

// f(seed, choice, position): uniform in [0, 1), 24 bits: the first word of Philox4x32-10 (philox.h) with key `seed` and
// counter (position, choice, 0).
float RandomUniform(uint64_t seed, uint32_t choice, uint64_t position);

}  // namespace kvrelay::sampling
