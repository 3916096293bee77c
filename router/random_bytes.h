// Unpredictable bytes of the operating system: seeds, and handoff ids, which are rights to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvrelay::router {

std::string RandomBytes(size_t count);
uint64_t RandomSeed();

}  // namespace kvrelay::router
