// Where workers are, as configured: an address, or a name under which there may be many.
//
// Pure except ResolveTarget; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::router {

struct WorkerTarget {
  v1::WorkerRole role = v1::WORKER_ROLE_UNSPECIFIED;
  std::string text;  // as configured
  std::string host;
  int port = 0;
  bool resolve = false;  // dns:///host:port: every A and AAAA record is a worker
};

// INVALID_ARGUMENT says what is wrong.
absl::StatusOr<WorkerTarget> ParseTarget(v1::WorkerRole role, const std::string& text);

// Addresses (host:port) of a target now, in order and without repetition. UNAVAILABLE if the name cannot be resolved.
// May block for seconds.
using Resolver = std::function<absl::StatusOr<std::vector<std::string>>(const WorkerTarget&)>;
absl::StatusOr<std::vector<std::string>> ResolveTarget(const WorkerTarget& target);

}  // namespace kvrelay::router
