// Philox4x32-10: a counter-based random generator, a keyed bijection of 128-bit counters. Any number of the sequence is
// computed directly, so there is no state that would have to travel with a request.
// Source of the formula: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace kvrelay::sampling {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace kvrelay::sampling
