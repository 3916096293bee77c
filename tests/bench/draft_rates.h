// What guessing tokens from the text is worth: one stream with and without it.
#pragma once

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/text/tokenizer.h"

namespace kvrelay::bench {

struct DraftRates {
  // Tokens per second with guesses over those without: medians of interleaved runs.
  double copying;     // the model goes on with a text that has said the same twice
  double free_prose;  // sampled at temperature 1
  // Guesses made, and those that were right, in the last run of each.
  uint64_t copying_made, copying_right, free_made, free_right;
};

// `plain` makes no guesses, `drafting` does; both of the same model. INTERNAL if a token differs.
absl::StatusOr<DraftRates> MeasureDrafting(engine::Engine& plain, engine::Engine& drafting,
                                           const text::Tokenizer& tokenizer);

}  // namespace kvrelay::bench
