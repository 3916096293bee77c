// Command line flags: a face of the library CLI11. A compiler takes ten seconds for its headers, so flags.cc alone
// includes them. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kvrelay {

// A flag that was just added, to be told more about. Valid as long as the Flags it is from.
class Flag {
 public:
  // Environment variable that is read when the flag is not given.
  Flag Env(const std::string& variable);
  // --help tells the value that the variable has now.
  Flag ShowDefault();
  Flag Required();
  // For whole numbers. Both ends are allowed.
  Flag Range(int64_t min, int64_t max);
  // Commas separate values.
  Flag List();
  // What stands for the value in --help.
  Flag TypeName(const std::string& name);

 private:
  friend class Flags;
  explicit Flag(CLI::Option* option) : option_(option) {}
  CLI::Option* option_;
};

// The flags and commands of a program, or those of one of its commands.
class Flags {
 public:
  Flags(const std::string& description, const std::string& program);
  ~Flags();
  Flags(const Flags&) = delete;

  // A flag with a value: "--name", or several names with commas; without dashes an argument. `value` is written by
  // Parse and must live until then. T is std::string, int, int64_t, uint32_t, uint64_t, float or double, a
  // std::optional of std::string, float or one of the two unsigned types, or a std::vector of std::string or uint32_t
  // for a flag that may be repeated.
  template <typename T>
  Flag Add(const std::string& names, T& value, const std::string& help);
  // A flag without a value, false unless given.
  Flag AddSwitch(const std::string& names, bool& value, const std::string& help);
  // A flag whose text goes to `parse`. An error of it is a mistake on the command line.
  Flag AddParsed(const std::string& name, std::function<absl::Status(const std::string&)> parse,
                 const std::string& help);

  // A command, to which flags are added in turn; `chosen` is called when it is the one that was given. If there are
  // any, one must be.
  Flags& AddCommand(const std::string& name, const std::string& help, std::function<void()> chosen);

  // Text at the end of --help.
  void Footer(const std::string& text);
  // Adds --version.
  void Version(const std::string& text);

  // Reads the command line. Returns the exit code if the program is done: 0 after --help or --version, written to
  // `out`, 2 at a mistake, told on `err`.
  std::optional<int> Parse(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

 private:
  explicit Flags(CLI::App* command);

  std::unique_ptr<CLI::App> program_;  // null for a command
  CLI::App* const app_;
  std::vector<std::unique_ptr<Flags>> commands_;
};

}  // namespace kvrelay
