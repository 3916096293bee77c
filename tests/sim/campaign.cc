#include "tests/sim/campaign.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace kvrelay::sim {
namespace {

void AddTo(ClientFigures* sum, const ClientFigures& more) {
  sum->completed += more.completed;
  sum->cancelled += more.cancelled;
  sum->tokens += more.tokens;
  sum->replans += more.replans;
  sum->moves += more.moves;
  sum->retried_attempts += more.retried_attempts;
  sum->resumes += more.resumes;
  for (const auto& [code, count] : more.failures) sum->failures[code] += count;
}

}  // namespace

Result RunSeeds(uint64_t first, uint64_t count, int jobs, bool stop_at_failure) {
  Result result;
  std::mutex mutex;
  std::atomic<uint64_t> next = first;
  std::atomic<bool> stop = false;
  const auto work = [&] {
    EdgeCounts edges{};
    while (!stop) {
      const uint64_t seed = next++;
      if (seed >= first + count) break;
      Outcome outcome = Simulate({.seed = seed}, &edges);
      std::lock_guard lock(mutex);
      ++result.seeds;
      AddTo(&result.figures, outcome.figures);
      if (outcome.violations.empty()) continue;
      result.failures.push_back({seed, std::move(outcome.violations)});
      if (stop_at_failure) stop = true;
    }
    std::lock_guard lock(mutex);
    for (int state = 0; state < kStates; ++state)
      for (int kind = 0; kind < kKinds; ++kind) result.edges[state][kind] += edges[state][kind];
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < jobs; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  std::sort(result.failures.begin(), result.failures.end(),
            [](const Failure& a, const Failure& b) { return a.seed < b.seed; });
  return result;
}

}  // namespace kvrelay::sim
