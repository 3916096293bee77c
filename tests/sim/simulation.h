// One simulation: a cluster, requests, faults, and what is checked at the end. A pure function of its options.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/client.h"
#include "tests/sim/edges.h"

namespace kvrelay::sim {

struct Options {
  uint64_t seed = 1;
  int requests = 55;
  int faults = 5;
  bool trace = false;  // every event on standard output
};

struct Outcome {
  std::vector<std::pair<std::string, std::string>> violations;  // check, what
  ClientFigures figures;
};

// Adds to `counts` which edges were struck.
Outcome Simulate(const Options& options, EdgeCounts* counts);

}  // namespace kvrelay::sim
