// Addresses as host:port.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace kvrelay::rpc {

// Splits host:port, [v6]:port included. INVALID_ARGUMENT says what is wrong.
struct HostPort {
  std::string host;
  int port;
};
absl::StatusOr<HostPort> ParseHostPort(const std::string& address);
std::string JoinHostPort(const HostPort& address);
// localhost, ::1 and 127.x.x.x: not reachable from other machines. Other names are not resolved and do not count.
bool IsLoopback(const HostPort& address);

}  // namespace kvrelay::rpc
