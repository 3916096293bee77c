// The simulator's program: see scripts/dev/sim.sh.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "common/base/clock.h"
#include "common/observability/log.h"
#include "tests/sim/bugs.h"
#include "tests/sim/campaign.h"

namespace kvrelay::sim {
namespace {

constexpr uint64_t kBugSeeds = 2000;
constexpr size_t kShownFailures = 10;

struct Flags {
  uint64_t seeds = 300;
  uint64_t first = 1;
  uint64_t seed = 0;
  std::string bug;
  bool bugs = false, trace = false;
  int jobs = 0;
};

std::string WithBug(const Flags& flags) { return flags.bug.empty() ? "" : " --bug " + flags.bug; }

void Print(const Failure& failure, const Flags& flags) {
  for (const auto& [check, what] : failure.violations) std::printf("  [%s] %s\n", check.c_str(), what.c_str());
  std::printf("  replay: ./dev sim --seed %llu%s --trace\n", static_cast<unsigned long long>(failure.seed),
              WithBug(flags).c_str());
}

// Counts by state and kind; "." where there is nothing to strike.
void PrintEdges(const EdgeCounts& edges) {
  std::printf("\nfaults struck, by the state of the request aimed at ('.': nothing there to strike)\n%-11s", "");
  for (int state = 0; state < kStates; ++state) std::printf(" %9.9s", Name(static_cast<State>(state)));
  std::printf("\n");
  uint64_t least = UINT64_MAX;
  for (int kind = 0; kind < kKinds; ++kind) {
    std::printf("%-11s", Name(static_cast<Kind>(kind)));
    for (int state = 0; state < kStates; ++state) {
      const uint64_t count = edges[state][kind];
      if (!IsPossible(static_cast<State>(state), static_cast<Kind>(kind))) {
        std::printf(" %9s", ".");
        continue;
      }
      least = std::min(least, count);
      std::printf(" %9llu", static_cast<unsigned long long>(count));
    }
    std::printf("\n");
  }
  std::printf("%zu edges, least struck %llu times\n", PossibleEdges().size(), static_cast<unsigned long long>(least));
}

int RunOne(const Flags& flags) {
  EdgeCounts edges{};
  const Outcome outcome = Simulate({.seed = flags.seed, .trace = flags.trace}, &edges);
  std::printf("seed %llu: %zu violations, %llu completed, %llu cancelled\n",
              static_cast<unsigned long long>(flags.seed), outcome.violations.size(),
              static_cast<unsigned long long>(outcome.figures.completed),
              static_cast<unsigned long long>(outcome.figures.cancelled));
  if (!outcome.violations.empty()) Print({flags.seed, outcome.violations}, flags);
  return outcome.violations.empty() ? 0 : 1;
}

int RunMany(const Flags& flags) {
  const absl::Duration began = Clock::Real()->Now();
  const Result result = RunSeeds(flags.first, flags.seeds, flags.jobs, /*stop_at_failure=*/false);
  for (size_t i = 0; i < std::min(result.failures.size(), kShownFailures); ++i) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(result.failures[i].seed));
    Print(result.failures[i], flags);
  }
  PrintEdges(result.edges);
  const ClientFigures& f = result.figures;
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "\n%llu seeds in %.1f s: %llu requests completed, %llu cancelled, %llu tokens, %llu replans, %llu moves, "
      "%llu attempts repeated, %llu resumes\nstreams that a client had to resume:",
      number(result.seeds), absl::ToDoubleSeconds(Clock::Real()->Now() - began), number(f.completed),
      number(f.cancelled), number(f.tokens), number(f.replans), number(f.moves), number(f.retried_attempts),
      number(f.resumes));
  for (const auto& [code, count] : f.failures) std::printf(" %s %llu", code.c_str(), number(count));
  std::printf("\nviolations in %zu seeds\n", result.failures.size());
  return result.failures.empty() ? 0 : 1;
}

int RunBugs(const Flags& flags) {
  int missed = 0;
  std::printf("%-22s %-8s %-24s %s\n", "bug", "seed", "found by", "what it is");
  for (const Bug& bug : Bugs()) {
    Plant(bug.name);
    const Result result = RunSeeds(flags.first, kBugSeeds, flags.jobs, /*stop_at_failure=*/true);
    if (result.failures.empty()) {
      ++missed;
      std::printf("%-22s %-8s %-24s %s\n", bug.name, "-", "NOT FOUND", bug.what);
      continue;
    }
    const Failure& failure = result.failures.front();
    std::printf("%-22s %-8llu %-24s %s\n", bug.name, static_cast<unsigned long long>(failure.seed),
                failure.violations.front().first.c_str(), bug.what);
    std::fflush(stdout);
  }
  Plant(nullptr);
  std::printf("%zu bugs, %d not found within %llu seeds\n", Bugs().size(), missed,
              static_cast<unsigned long long>(kBugSeeds));
  return missed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Runs the protocol in a simulated cluster");
  app.add_option("--seeds", flags.seeds, "how many seeds to run")->check(CLI::Range(1u, 100000000u));
  app.add_option("--first", flags.first, "the first of them");
  app.add_option("--seed", flags.seed, "run this seed alone");
  app.add_option("--bug", flags.bug, "plant this bug");
  app.add_flag("--bugs", flags.bugs, "plant each bug in turn, until it is found");
  app.add_flag("--trace", flags.trace, "with --seed: print every event");
  app.add_option("--jobs", flags.jobs, "threads (default: one per processor)")->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  if (flags.jobs == 0) flags.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  observability::InitLog(observability::LogFormat::kText,
                         flags.trace ? observability::LogLevel::kInfo : observability::LogLevel::kError);
  if (!flags.bug.empty()) {
    const auto known = std::find_if(Bugs().begin(), Bugs().end(), [&](const Bug& b) { return b.name == flags.bug; });
    if (known == Bugs().end()) {
      std::fprintf(stderr, "no bug is called '%s'; these are known:\n", flags.bug.c_str());
      for (const Bug& bug : Bugs()) std::fprintf(stderr, "  %-22s %s\n", bug.name, bug.what);
      return 2;
    }
    Plant(known->name);
  }
  if (flags.bugs) return RunBugs(flags);
  return flags.seed != 0 ? RunOne(flags) : RunMany(flags);
}

}  // namespace
}  // namespace kvrelay::sim

int main(int argc, char** argv) { return kvrelay::sim::Main(argc, argv); }
