#include "cli/console.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

namespace kvrelay::cli {
namespace {

bool ColorsWanted() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) != "dumb";
}

}  // namespace

Console Console::Standard() {
  Console console{std::cin, std::cout, std::cerr};
  console.in_is_terminal = isatty(STDIN_FILENO) == 1;
  console.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  console.err_is_terminal = isatty(STDERR_FILENO) == 1;
  console.color = console.out_is_terminal && ColorsWanted();
  return console;
}

}  // namespace kvrelay::cli
