#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/json.h"
#include "cli/options.h"
#include "common/base/status_macros.h"

namespace kvrelay::cli {
namespace {

constexpr char kEndpoints[] = ".run/endpoints.json";
constexpr size_t kMaxEndpointsBytes = 1 << 20;

struct NamedExecution {
  const char* name;
  v1::Execution execution;
};
constexpr NamedExecution kExecutions[] = {
    {"split", v1::EXECUTION_SPLIT}, {"local", v1::EXECUTION_LOCAL}, {"no-cache", v1::EXECUTION_NO_CACHE}};

absl::Status CheckAddress(const std::string& address, const std::string& source) {
  if (absl::StartsWith(address, "unix:") || absl::StrContains(address, "://")) return absl::OkStatus();
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' from ", source, " is not HOST:PORT"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> AddressesFromEndpoints() {
  std::ifstream file(kEndpoints);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("no router address: --address and KVRELAY_ADDRESS are not set, and there is no ", kEndpoints));
  }
  std::string text(kMaxEndpointsBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return RoutersOfEndpoints(text, kEndpoints);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveAddresses(const std::vector<std::string>& option) {
  std::vector<std::string> given = option;
  std::string source = "--address";
  const char* variable = std::getenv("KVRELAY_ADDRESS");
  if (given.empty() && variable != nullptr && *variable != '\0') {
    given = absl::StrSplit(variable, ',');
    source = "KVRELAY_ADDRESS";
  }
  if (given.empty()) {
    KV_ASSIGN_OR_RETURN(given, AddressesFromEndpoints());
    source = kEndpoints;
  }
  std::vector<std::string> addresses;
  for (const std::string& address : given) {
    KV_RETURN_IF_ERROR(CheckAddress(address, source));
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
  }
  return addresses;
}

absl::StatusOr<v1::Execution> ParseExecution(const std::string& name) {
  for (const NamedExecution& known : kExecutions) {
    if (name == known.name) return known.execution;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is none of split, local, no-cache"));
}

const char* ExecutionName(v1::Execution execution) {
  for (const NamedExecution& known : kExecutions) {
    if (execution == known.execution) return known.name;
  }
  return "unspecified";
}

}  // namespace kvrelay::cli
