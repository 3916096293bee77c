// Flags of the server programs. Each has an environment name: KVRELAY_ and the flag in capitals with underscores; a
// flag wins over the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <cctype>
#include <string>

namespace kvrelay::rpc {

inline std::string EnvName(std::string flag) {
  for (char& c : flag) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "KVRELAY_" + flag;
}

// --flag VALUE. `value` holds the default.
template <typename T>
CLI::Option* AddFlag(CLI::App& app, const std::string& flag, T& value, const std::string& help) {
  return app.add_option("--" + flag, value, help)->envname(EnvName(flag))->capture_default_str();
}

// --flag, off by default.
inline CLI::Option* AddSwitch(CLI::App& app, const std::string& flag, bool& value, const std::string& help) {
  return app.add_flag("--" + flag, value, help)->envname(EnvName(flag));
}

}  // namespace kvrelay::rpc
