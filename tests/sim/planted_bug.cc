#include "common/base/planted_bug.h"

#include <cstring>

#include "tests/sim/bugs.h"

namespace kvrelay {
namespace {

const char* planted = nullptr;

}  // namespace

bool IsPlanted(const char* name) { return planted != nullptr && std::strcmp(planted, name) == 0; }

namespace sim {

void Plant(const char* name) { planted = name; }

}  // namespace sim
}  // namespace kvrelay
