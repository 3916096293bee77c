// Rotary position angles, computed without libm so that every machine has the same table.
#pragma once

#include <vector>

namespace kvrelay::model {

// How a model stretches its positions: the angle of pair i is divided by divisors[i], cosine and sine are multiplied by
// magnitude.
struct RopeScaling {
  std::vector<double> divisors;  // [dims / 2], finite and positive; empty: all 1
  double magnitude = 1;
};

// Cosine and sine of position * theta^(-2i / dims), scaled, for every position below `positions` and pair i < dims / 2,
// row by row (Su et al., RoFormer, equation 15). Computed in double, rounded once. REQUIRES: dims even, theta > 1.
struct RopeTable {
  std::vector<float> cos, sin;  // [positions][dims / 2]
};
RopeTable MakeRopeTable(int positions, int dims, double theta, const RopeScaling& scaling = {});

// Llama 3.1: wavelengths above original / low_freq_factor are divided by `factor`, those below original /
// high_freq_factor are kept, what lies between is blended. `original`: the context length before scaling, in positions.
// REQUIRES: 0 < low_freq_factor < high_freq_factor, factor >= 1, original > 0; dims and theta as above.
RopeScaling Llama3Scaling(int dims, double theta, double factor, double low_freq_factor, double high_freq_factor,
                          double original);

// YaRN (Peng et al., 2023, section 3): pairs that turn more than beta_fast times over the original context are kept,
// those that turn less than beta_slow times are divided by `factor`, with a ramp over whole pairs between. Magnitude
// 0.1 ln(factor) + 1. REQUIRES: beta_fast > beta_slow > 0, factor >= 1, original > 0; dims and theta as above.
RopeScaling YarnScaling(int dims, double theta, double factor, double beta_fast, double beta_slow, double original);

}  // namespace kvrelay::model
