// Rotary position angles, computed without libm so that every machine has the same table.
#pragma once

#include <vector>

namespace kvrelay::model {

// Cosine and sine of position * theta^(-2i / dims) for every position below `positions` and pair i < dims / 2, row by
// row (Su et al., RoFormer, equation 15). Computed in double, rounded once. REQUIRES: dims even, theta > 1.
struct RopeTable {
  std::vector<float> cos, sin;  // [positions][dims / 2]
};
RopeTable MakeRopeTable(int positions, int dims, double theta);

}  // namespace kvrelay::model
