// Many simulations: seeds in a row, on several threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/simulation.h"

namespace kvrelay::sim {

struct Failure {
  uint64_t seed = 0;
  std::vector<std::pair<std::string, std::string>> violations;
};

struct Result {
  uint64_t seeds = 0;
  std::vector<Failure> failures;  // by seed
  EdgeCounts edges{};
  ClientFigures figures;
};

// Seeds [first, first + count) on `jobs` threads. `stop_at_failure`: seeds after the first that fails need not be run.
Result RunSeeds(uint64_t first, uint64_t count, int jobs, bool stop_at_failure);

}  // namespace kvrelay::sim
