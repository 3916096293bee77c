// How to talk to the router: TLS and token, from the files that the options name.
#pragma once

#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/options.h"

namespace kvrelay::cli {

// INVALID_ARGUMENT or FAILED_PRECONDITION naming the file or option that is wrong. A token is never sent in the clear
// to another machine.
absl::StatusOr<Connection> ResolveConnection(const std::string& address, const Options& options);

}  // namespace kvrelay::cli
