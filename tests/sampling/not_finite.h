// What no score may be.
#pragma once

#include <limits>

namespace kvrelay::sampling {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace kvrelay::sampling
