#include "cli/connection.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/credentials.h"
#include "common/rpc/host_port.h"

namespace kvrelay::cli {
namespace {

constexpr int64_t kTokenFileBytesMax = 4096;

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  KV_ASSIGN_OR_RETURN(const std::string text, rpc::ReadSmallFile("token file", path, kTokenFileBytesMax));
  const std::string token(absl::StripAsciiWhitespace(text));
  const bool clean = std::all_of(token.begin(), token.end(), [](unsigned char c) { return std::isgraph(c); });
  if (token.empty() || !clean) {
    return absl::FailedPreconditionError(
        absl::StrCat("token file ", path, ": must hold one token and nothing else, without spaces"));
  }
  return token;
}

bool IsOnThisMachine(const std::string& address) {
  const absl::StatusOr<rpc::HostPort> parsed = rpc::ParseHostPort(address);
  return absl::StartsWith(address, "unix:") || (parsed.ok() && rpc::IsLoopback(*parsed));
}

}  // namespace

absl::StatusOr<Connection> ResolveConnection(const std::vector<std::string>& addresses, const Options& options) {
  Connection connection{.addresses = addresses};
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key belong together");
  }
  if (!options.tls_ca.empty()) {
    KV_ASSIGN_OR_RETURN(
        connection.credentials,
        rpc::ClientCredentials({.cert = options.tls_cert, .key = options.tls_key, .ca = options.tls_ca}));
    connection.tls = true;
  } else if (!options.tls_cert.empty()) {
    return absl::InvalidArgumentError("--tls-cert needs --tls-ca: without it there is no TLS");
  }
  if (!options.token_file.empty()) {
    KV_ASSIGN_OR_RETURN(connection.token, ReadToken(options.token_file));
    const auto away = std::find_if_not(addresses.begin(), addresses.end(), IsOnThisMachine);
    if (!connection.tls && away != addresses.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a token is not sent to ", *away, " without TLS, where others could read it: give --tls-ca"));
    }
  }
  return connection;
}

}  // namespace kvrelay::cli
