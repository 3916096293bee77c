// kvrelay: the command line client.
#include <signal.h>
#include <stdlib.h>

#include <iostream>

#include "cli/app.h"
#include "cli/console.h"
#include "cli/interrupt.h"

int main(int argc, char** argv) {
  // gRPC's own log lines are for its developers; errors reach the user through statuses.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  signal(SIGPIPE, SIG_IGN);                       // a closed pipe is seen at the write, and the call is cancelled then
  auto* interrupt = new kvrelay::cli::Interrupt;  // lives as long as the thread that watches
  interrupt->Watch();
  return kvrelay::cli::RunApp(argc, argv, kvrelay::cli::Console::Standard(), interrupt);
}
