// The subcommands. Each takes parsed options and a client, writes to the console and returns the exit code.
#pragma once

#include "cli/client.h"
#include "cli/console.h"
#include "cli/options.h"

namespace kvrelay::cli {

int RunGenerate(const Options& options, Client* client, const Console& console);  // generate, run
int RunChat(const Options& options, Client* client, const Console& console);
int RunTrace(const Options& options, Client* client, const Console& console);
int RunTokenize(const Options& options, Client* client, const Console& console);
int RunDetokenize(const Options& options, Client* client, const Console& console);
int RunModel(const Options& options, Client* client, const Console& console);
int RunStatus(const Options& options, Client* client, const Console& console);
int RunWait(const Options& options, Client* client, const Console& console);
int RunBench(const Options& options, Client* client, const Console& console);

}  // namespace kvrelay::cli
