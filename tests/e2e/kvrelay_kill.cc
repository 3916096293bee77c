// Kills the decode worker of long streams, prints a line for each, and exits with 1 unless all came through.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "common/base/clock.h"
#include "tests/e2e/kill_runs.h"

int main(int argc, char** argv) {
  using kvrelay::e2e::KillRun;
  kvrelay::e2e::KillOptions options;
  CLI::App app("kill -9 of the decode worker that serves a stream, at a random token of each of many streams");
  app.add_option("--times", options.times, "streams")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--tokens", options.tokens, "tokens of each stream")
      ->capture_default_str()
      ->check(CLI::Range(2, 8000));
  app.add_option("--at-a-time", options.at_a_time, "streams at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--seed", options.seed, "of the choice of tokens")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Duration begin = kvrelay::Clock::Real()->Now();
  int equal = 0, replanned = 0;
  absl::Duration longest;
  const auto bad = kvrelay::e2e::RunKills(options, [&](const KillRun& run) {
    equal += run.equal ? 1 : 0;
    replanned += run.replans >= 1 ? 1 : 0;
    longest = std::max(longest, run.gap);
    std::printf("killed %s at token %4u: %s, replans %u, gap %5.0f ms%s%s\n", run.worker.c_str(), run.token,
                run.equal ? "byte-equal" : "DIFFERENT", run.replans, absl::ToDoubleMilliseconds(run.gap),
                run.problem.empty() ? "" : "; ", run.problem.c_str());
    std::fflush(stdout);
  });
  if (!bad.ok()) {
    std::fprintf(stderr, "kill: %s\n", bad.status().ToString().c_str());
    return 1;
  }
  std::printf("%d streams of %u tokens: %d byte-equal, %d with replans >= 1; longest gap %.0f ms; %.0f s\n",
              options.times, options.tokens, equal, replanned, absl::ToDoubleMilliseconds(longest),
              absl::ToDoubleSeconds(kvrelay::Clock::Real()->Now() - begin));
  return *bad == 0 ? 0 : 1;
}
