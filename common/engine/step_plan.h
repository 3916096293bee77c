// Which rows run in the next step: continuous batching with chunked prefill. Pure.
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace kvrelay::engine {

struct StepLimits {
  int max_rows;     // rows of the workspace
  int prompt_rows;  // most prompt rows in one step, over all sessions
};

// `pending[i]`: input rows that session i waits for, 0 if it is held; sessions in order of arrival. A session with one
// row continues its stream and always gets it; prompts share what the limits leave, the oldest first, so that none
// starves and a prompt is finished before a later one begins to cost it time. Returns the rows of each session; 0 means
// not in this step. The sum is at least 1 if any session waits. REQUIRES: max_rows >= pending.size() + 1, prompt_rows
// >= 1.
std::vector<int> PlanStep(absl::Span<const int> pending, const StepLimits& limits);

// How many guessed tokens may be checked beside the rows that PlanStep gave: they cost little while few rows share the
// step, so own rows and guesses together are at most draft_tokens + 1; none beside prompts, where each costs its full
// time. At least 0.
int GuessesThatFit(absl::Span<const int> pending, absl::Span<const int> rows, int draft_tokens);

// Prompt rows that fit into the step budget beside running streams, given the measured cost of a row; at least `least`.
int PromptRowsForBudget(double budget_s, double row_cost_s, int chunk, int least);

}  // namespace kvrelay::engine
