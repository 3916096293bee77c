// Values as they lie in files: the machine's own bytes, which are little endian.
#pragma once

#include <string>

namespace kvrelay::testing {

template <typename T>
void AppendBytes(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace kvrelay::testing
