#include "router/worker_address.h"

#include <netdb.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/rpc/server.h"

namespace kvrelay::router {

absl::StatusOr<WorkerTarget> ParseTarget(v1::WorkerRole role, const std::string& text) {
  WorkerTarget target;
  target.role = role;
  target.text = text;
  absl::string_view address = text;
  target.resolve = absl::ConsumePrefix(&address, "dns:///");
  KV_ASSIGN_OR_RETURN(rpc::HostPort parsed, rpc::ParseHostPort(std::string(address)));
  if (parsed.port == 0) return absl::InvalidArgumentError(absl::StrCat("worker address ", text, " has port 0"));
  target.host = std::move(parsed.host);
  target.port = parsed.port;
  return target;
}

absl::StatusOr<std::vector<std::string>> ResolveTarget(const WorkerTarget& target) {
  if (!target.resolve) return std::vector<std::string>{rpc::JoinHostPort({target.host, target.port})};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(target.host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot resolve ", target.host, ": ", gai_strerror(error)));
  }
  std::set<std::string> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    char host[NI_MAXHOST];
    if (getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0) {
      addresses.insert(rpc::JoinHostPort({host, target.port}));
    }
  }
  freeaddrinfo(found);
  return std::vector<std::string>(addresses.begin(), addresses.end());
}

}  // namespace kvrelay::router
