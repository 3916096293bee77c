// What the parts of a simulation tell about what they see: violations of an invariant, and where faults have struck.
// The observer of one world; all pointers are valid as long as it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/world.h"

namespace kvrelay::sim {

enum class FrameFault { kFlip, kRepeat, kSwap, kDrop, kForeign };

class Observer {
 public:
  explicit Observer(World* world) : world_(world) {}

  void Violation(const std::string& check, const std::string& what) {
    world_->Trace("VIOLATION", check + ": " + what);
    violations_.emplace_back(check, what);
  }
  const std::vector<std::pair<std::string, std::string>>& violations() const { return violations_; }

  // Handoffs whose next frame shall be damaged, and those where one was.
  std::map<std::string, FrameFault> frame_faults;
  std::set<std::string> damaged;

  // Handoffs: the attempt that is open, whether KV was published, whether the owner has ended.
  struct Handoff {
    uint32_t open_attempt = 1;
    int published = 0;
    bool ended = false;
  };
  std::map<std::string, Handoff> handoffs;

 private:
  World* const world_;
  std::vector<std::pair<std::string, std::string>> violations_;
};

}  // namespace kvrelay::sim
