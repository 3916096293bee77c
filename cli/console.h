// Where the client reads and writes, and what the terminal can show. Not thread-safe; owns nothing.
#pragma once

#include <iosfwd>

namespace kvrelay::cli {

struct Console {
  std::istream& in;
  std::ostream& out;  // the answer, tables, JSON
  std::ostream& err;  // errors, statistics, progress
  bool in_is_terminal = false;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool color = false;  // colours on `out`

  // The process's standard streams. Colours need a terminal and are off with NO_COLOR or TERM=dumb.
  static Console Standard();
};

}  // namespace kvrelay::cli
