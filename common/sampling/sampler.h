// Chooses a token from logits. Pure: the result depends on the arguments alone, so any worker, retry or replay gives the
// same token. Candidates are ordered by (logit descending, id ascending); one random number f(seed, 0, position) decides.
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

// `position` is the absolute position of the new token (prompt + tokens selected before). `banned` ids are not selectable
// but count in log-probabilities. INTERNAL if a logit is not finite or nothing is selectable.
absl::StatusOr<Selection> Select(absl::Span<const float> logits, const SamplingParams& params, uint64_t position,
                                 absl::Span<const int32_t> banned, int logprobs);

// f(seed, choice, position): uniform in [0, 1), 24 bits.
float RandomUniform(uint64_t seed, uint32_t choice, uint64_t position);

}  // namespace kvrelay::sampling
