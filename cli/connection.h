// How to talk to the routers: TLS and token, from the files that the options name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/options.h"

namespace kvrelay::cli {

// INVALID_ARGUMENT or FAILED_PRECONDITION naming the file, option or address that is wrong. A token is never sent in
// the clear to another machine: without TLS all of `addresses` must be on this one.
absl::StatusOr<Connection> ResolveConnection(const std::vector<std::string>& addresses, const Options& options);

}  // namespace kvrelay::cli
