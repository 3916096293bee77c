// Tells a person why a call failed: what, why, what to do.
#pragma once

#include <string>

#include "cli/client.h"
#include "cli/console.h"

namespace kvrelay::cli {

// Prints `end`'s error, if it is one, and returns the exit code.
int ReportEnd(const Client& client, const CallEnd& end, const Console& console);

// Prints "kvrelay: what" and an indented hint, and returns kExitUsage.
int ReportUsage(const std::string& what, const std::string& hint, const Console& console);

}  // namespace kvrelay::cli
