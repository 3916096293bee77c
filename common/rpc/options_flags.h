// Flags of the server programs. Each has an environment name: KVRELAY_ and the flag in capitals with underscores; a
// flag wins over the environment.
#pragma once

#include <cctype>
#include <string>

#include "common/base/flags.h"

namespace kvrelay::rpc {

inline std::string EnvName(std::string flag) {
  for (char& c : flag) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "KVRELAY_" + flag;
}

// --flag VALUE. `value` holds the default.
template <typename T>
Flag AddFlag(Flags& flags, const std::string& flag, T& value, const std::string& help) {
  return flags.Add("--" + flag, value, help).Env(EnvName(flag)).ShowDefault();
}

// --flag, off by default.
inline Flag AddSwitch(Flags& flags, const std::string& flag, bool& value, const std::string& help) {
  return flags.AddSwitch("--" + flag, value, help).Env(EnvName(flag));
}

}  // namespace kvrelay::rpc
