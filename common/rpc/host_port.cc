#include "common/rpc/host_port.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kvrelay::rpc {

absl::StatusOr<HostPort> ParseHostPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort result;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &result.port) || result.port < 0 ||
      result.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", address, "' is not host:port with a port of 0 to 65535, for example 127.0.0.1:0"));
  }
  result.host = address.substr(0, colon);
  if (absl::StartsWith(result.host, "[") && absl::EndsWith(result.host, "]")) {
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (absl::StrContains(result.host, ':')) {
    return absl::InvalidArgumentError(absl::StrCat("address '", address, "': write IPv6 as [host]:port"));
  }
  if (result.host.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", address, "' has no host; use 0.0.0.0 for all interfaces"));
  }
  return result;
}

std::string JoinHostPort(const HostPort& address) {
  const bool v6 = absl::StrContains(address.host, ':');
  return v6 ? absl::StrCat("[", address.host, "]:", address.port) : absl::StrCat(address.host, ":", address.port);
}

bool IsLoopback(const HostPort& address) {
  in_addr v4 = {};
  if (inet_pton(AF_INET, address.host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return address.host == "localhost" || address.host == "::1";
}

}  // namespace kvrelay::rpc
