// The bugs that are planted in the protocol (common/base/planted_bug.h) to see the simulator find them.
#pragma once

#include <vector>

namespace kvrelay::sim {

struct Bug {
  const char* name;
  const char* what;
};
const std::vector<Bug>& Bugs();

// Switches on the bug of this name; null: none. Before any simulation starts.
void Plant(const char* name);

}  // namespace kvrelay::sim
