// Options that change logits before a token is chosen from them: bias and penalties.
//
// The formula of one logit x, in f32, each step rounded once (sources: generation.proto; the order is vLLM's):
//   x + bias                              of tokens with a bias
//   x < 0 ? x * repetition : x / repetition   of tokens in prompt or output
//   x - frequency * count                 of tokens in the output; count is how often
//   x - presence                          of tokens in the output
// What passes the range of f32 becomes the largest finite number of its sign: scores are never infinite.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace kvrelay::sampling {

struct LogitOptions {
  float repetition_penalty = 1;  // 1 changes nothing
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::pair<int32_t, float>> bias = {};  // by token id, each once; in any order

  // Whether any logit is changed.
  bool active() const;
};

// INVALID_ARGUMENT naming the field, the value and the range (see generation.proto). `vocabulary`: number of token ids.
absl::Status Validate(const LogitOptions& options, int vocabulary);

// Applies the options to one sequence. Counts its tokens as they come, so that a selection costs a copy of the logits
// and work for each distinct token of the sequence. A function of its arguments and the tokens added: one that is made
// anew from a longer history is the same as one that has followed it. Not thread-safe.
class LogitAdjuster {
 public:
  // `history`: `prompt_length` tokens of the prompt, then output. `more`: tokens that may be added; as many are without
  // an allocation.
  LogitAdjuster(const LogitOptions& options, absl::Span<const int32_t> history, size_t prompt_length, size_t more);

  // `token` was selected.
  void Add(int32_t token);

  // The logits with the options applied: `logits` themselves if there are none, else in `*scores`, which grows once.
  absl::Span<const float> Adjust(absl::Span<const float> logits, std::vector<float>* scores) const;

 private:
  // A token with something to apply.
  struct Entry {
    int32_t id;
    float bias = 0;
    bool occurs = false;  // in prompt or output
    uint32_t count = 0;   // in the output
  };

  // The entry of a token, made if it has none.
  Entry& At(int32_t id);
  float Score(float logit, const Entry& entry) const;

  float repetition_, presence_, frequency_;
  bool counts_output_;          // some penalty is set
  std::vector<Entry> entries_;  // by id
};

}  // namespace kvrelay::sampling
