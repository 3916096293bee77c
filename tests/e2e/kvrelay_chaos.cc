// The long chaos run: prints its report and exits with 1 unless every stream was right.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/e2e/chaos.h"

int main(int argc, char** argv) {
  kvrelay::e2e::ChaosOptions options;
  double minutes = 10;
  CLI::App app("Strikes workers, routers and links under streams, and compares every stream with an undisturbed run");
  app.add_option("--minutes", minutes, "how long")->capture_default_str()->check(CLI::Range(0.1, 1e5));
  app.add_option("--streams", options.streams, "clients at a time")->capture_default_str()->check(CLI::Range(1, 256));
  app.add_option("--seed", options.seed, "of the choice of faults")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.duration = absl::Minutes(minutes);
  const auto report = kvrelay::e2e::RunChaos(options);
  if (!report.ok()) {
    std::fprintf(stderr, "chaos: %s\n", report.status().ToString().c_str());
    return 1;
  }
  std::printf("%s", report->Text().c_str());
  return report->clean() ? 0 : 1;
}
