// Selects the tokens of one sequence, one after the other, with all options of its request.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sampling/end_rule.h"
#include "common/sampling/id_ranges.h"
#include "common/sampling/logit_adjuster.h"
#include "common/sampling/output_grammar.h"
#include "common/sampling/sampler.h"

namespace kvrelay::sampling {

// All that selection depends on beside logits and history.
struct SelectionSpec {
  SamplingParams sampling;
  LogitOptions logit_options;
  std::vector<int32_t> allowed_ids;  // empty: all; in any order
  EndRule end_rule;                  // max_tokens counts history
  int logprobs = 0;
  std::shared_ptr<const OutputGrammar>
      grammar;                  // null: any text. Never with min_tokens, allowed_ids or without eos_ids
  size_t grammar_accepted = 0;  // tokens of the history that it has accepted: prompt and first output
};

// INVALID_ARGUMENT naming field, value and range; also if no allowed id is selectable before min_tokens.
absl::Status Validate(const SelectionSpec& spec, int vocabulary);

// A function of the spec and the history so far: whoever goes on with a sequence, and wherever, selects the same. Not
// thread-safe.
class SequenceSampler {
 public:
  // `history`: `prompt_length` tokens of the prompt, then those selected already. `spec` must outlive this. REQUIRES:
  // Validate(spec) is OK.
  SequenceSampler(const SelectionSpec* spec, absl::Span<const int32_t> history, size_t prompt_length);

  // Number of the next token in the request, from 0.
  uint32_t next_index() const { return next_index_; }
  // Selects the next token from logits [vocabulary] and counts it. `scores` is workspace that others may share.
  // Errors of the logits and of the grammar.
  absl::StatusOr<Selection> Select(absl::Span<const float> logits, std::vector<float>* scores);

 private:
  void FollowGrammar(absl::Span<const int32_t> history);
  // Makes what the grammar allows next selectable.
  absl::Status ApplyGrammar(size_t vocabulary);

  const SelectionSpec& spec_;
  const size_t prompt_length_;
  uint32_t next_index_;
  std::vector<IdRange> selectable_at_first_;  // before min_tokens
  std::vector<IdRange> selectable_;
  LogitAdjuster adjuster_;
  std::unique_ptr<OutputGrammar> grammar_;
  absl::Status grammar_problem_;
  std::vector<uint32_t> grammar_mask_;
};

}  // namespace kvrelay::sampling
