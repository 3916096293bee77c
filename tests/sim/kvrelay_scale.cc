// The program of scripts/dev/scale.sh, which see.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/observability/log.h"
#include "tests/sim/scale.h"

namespace kvrelay::sim {
namespace {

struct Flags {
  std::vector<int> workers = {10, 100, 1000, 10000};
  std::vector<int> routers = {1, 4, 16};
  uint64_t requests = 0;
  uint64_t seed = 1;
};

// 100 for each worker of a role, and a hundredth more, for those that are under way at the end.
uint64_t RequestsFor(int workers) { return static_cast<uint64_t>(workers) * 101 / 2; }

double Quantile(const std::vector<double>& sorted, double q) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

bool RunRow(const ScaleOptions& options) {
  const ScaleResult r = RunScale(options);
  std::printf("%7d %7d %8llu %8s %7.0f %7.0f %7.2f %7.2f %6.3f %6.3f %6.2f %8.2f %7llu %7llu %7llu\n", options.workers,
              options.routers, static_cast<unsigned long long>(options.requests), options.skewed ? "skewed" : "uniform",
              Quantile(r.decision_us, 0.5), Quantile(r.decision_us, 0.99), r.busiest_prefill, r.busiest_decode,
              r.hit_rate, r.best_hit_rate, r.calls_per_request, absl::ToDoubleSeconds(r.longest_wait),
              static_cast<unsigned long long>(r.failed), static_cast<unsigned long long>(r.starved),
              static_cast<unsigned long long>(r.replaced));
  std::fflush(stdout);
  return r.starved == 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Runs placement with many workers and several routers");
  app.add_option("--workers", flags.workers, "how many, half of each role")
      ->delimiter(',')
      ->check(CLI::Range(2, 100000));
  app.add_option("--routers", flags.routers, "how many")->delimiter(',')->check(CLI::Range(1, 1000));
  app.add_option("--requests", flags.requests, "per row (default: some 100 for each worker)");
  app.add_option("--seed", flags.seed, "decides all but times of decisions");
  CLI11_PARSE(app, argc, argv);
  observability::InitLog(observability::LogFormat::kText, observability::LogLevel::kError);
  std::printf("%7s %7s %8s %8s %15s %15s %13s %6s %8s %7s %7s %7s\n", "", "", "", "", "decision us", "busiest / mean",
              "prompts found", "calls", "longest", "", "", "workers");
  std::printf("%7s %7s %8s %8s %7s %7s %7s %7s %6s %6s %6s %8s %7s %7s %7s\n", "workers", "routers", "requests", "load",
              "p50", "p99", "prefill", "decode", "rate", "best", "each", "wait s", "failed", "starved", "changed");
  bool sound = true;
  for (const int workers : flags.workers) {
    for (const int routers : flags.routers) {
      for (const bool skewed : {false, true}) {
        sound &= RunRow({.workers = workers,
                         .routers = routers,
                         .requests = flags.requests > 0 ? flags.requests : RequestsFor(workers),
                         .seed = flags.seed,
                         .skewed = skewed});
      }
    }
  }
  return sound ? 0 : 1;
}

}  // namespace
}  // namespace kvrelay::sim

int main(int argc, char** argv) { return kvrelay::sim::Main(argc, argv); }
