// The whole program but for the process's own set-up.
#pragma once

#include "cli/console.h"
#include "cli/interrupt.h"

namespace kvrelay::cli {

// Parses the command line, runs the command and returns the exit code (cli/exit_code.h).
int RunApp(int argc, const char* const* argv, const Console& console, Interrupt* interrupt);

}  // namespace kvrelay::cli
