// The long soak: prints memory and blocks as they go, and exits with 1 unless both stayed flat.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/e2e/soak.h"

int main(int argc, char** argv) {
  using kvrelay::e2e::SoakSample;
  kvrelay::e2e::SoakOptions options;
  CLI::App app("Runs and cancels many short requests, and watches memory and KV blocks of every process");
  app.add_option("--finished", options.finished, "requests that run to their end")->capture_default_str();
  app.add_option("--cancelled", options.cancelled, "requests that are cancelled")->capture_default_str();
  app.add_option("--streams", options.streams, "requests at a time")->capture_default_str()->check(CLI::Range(1, 64));
  CLI11_PARSE(app, argc, argv);
  const auto report = kvrelay::e2e::RunSoak(options, [](const SoakSample& sample) {
    std::printf("%6d finished %6d cancelled %3d failed | referenced blocks %llu | RSS", sample.finished,
                sample.cancelled, sample.failed, static_cast<unsigned long long>(sample.referenced_blocks));
    for (const auto& [name, mib] : sample.rss_mib) std::printf("  %s %d MiB", name.c_str(), mib);
    std::printf("\n");
    std::fflush(stdout);
  });
  if (!report.ok()) {
    std::fprintf(stderr, "soak: %s\n", report.status().ToString().c_str());
    return 1;
  }
  std::printf("requests: %s; blocks: %s; memory: %s, largest growth after the warm-up of %d phases %d MiB (limit %d)\n",
              report->requests_ended_well ? "all ended as they should" : "SOME ENDED OTHERWISE",
              report->blocks_flat ? "flat" : "NOT FLAT", report->memory_flat ? "flat" : "NOT FLAT", options.warm_up,
              report->largest_growth_mib, kvrelay::e2e::kSoakGrowthMib);
  return report->clean() ? 0 : 1;
}
