// Prints what a handover costs; exits with 1 if a stream was not what it should be.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/e2e/handover.h"

int main(int argc, char** argv) {
  kvrelay::e2e::HandoverOptions options;
  CLI::App app("Measures the tail of handoffs and the gap that a live move adds");
  app.add_option("--repeats", options.repeats, "handoffs of each length")
      ->capture_default_str()
      ->check(CLI::Range(3, 10000));
  app.add_option("--streams", options.streams, "live when their worker drains")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  CLI11_PARSE(app, argc, argv);
  const auto report = kvrelay::e2e::MeasureHandover(options);
  if (!report.ok()) {
    std::fprintf(stderr, "handover: %s\n", report.status().ToString().c_str());
    return 1;
  }
  std::printf("%s", report->c_str());
  return 0;
}
