#include "common/engine/step_plan.h"

#include <algorithm>

namespace kvrelay::engine {

std::vector<int> PlanStep(absl::Span<const int> pending, const StepLimits& limits) {
  std::vector<int> rows(pending.size(), 0);
  int left = limits.max_rows;
  for (size_t i = 0; i < pending.size(); ++i)
    if (pending[i] == 1 && left > 0) rows[i] = 1, --left;
  int prompt_left = std::min(limits.prompt_rows, left);
  for (size_t i = 0; i < pending.size() && prompt_left > 0; ++i) {
    if (pending[i] <= 1) continue;
    rows[i] = std::min(pending[i], prompt_left);
    prompt_left -= rows[i];
  }
  return rows;
}

int GuessesThatFit(absl::Span<const int> pending, absl::Span<const int> rows, int draft_tokens) {
  int spare = draft_tokens + 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] > 0 && pending[i] > 1) return 0;
    spare -= rows[i];
  }
  return std::max(spare, 0);
}

int PromptRowsForBudget(double budget_s, double row_cost_s, int chunk, int least) {
  if (row_cost_s <= 0) return chunk;
  const double fit = budget_s / row_cost_s;
  return fit >= chunk ? chunk : std::max(std::min(least, chunk), static_cast<int>(fit));
}

}  // namespace kvrelay::engine
