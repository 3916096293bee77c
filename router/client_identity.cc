#include "router/client_identity.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/rpc/http_peer.h"

namespace kvrelay::router {
namespace {

constexpr absl::string_view kScheme = "Bearer ";

// The token of the call's authorization; nothing if there is not exactly one.
std::optional<std::string_view> BearerToken(const grpc::CallbackServerContext& context) {
  const auto [first, last] = context.client_metadata().equal_range("authorization");
  if (first == last || std::next(first) != last) return std::nullopt;
  const absl::string_view value(first->second.data(), first->second.size());
  if (!absl::StartsWithIgnoreCase(value, kScheme)) return std::nullopt;
  return std::string_view(value.data(), value.size()).substr(kScheme.size());
}

}  // namespace

std::string PeerHost(std::string_view peer) {
  const bool has_port = absl::StartsWith({peer.data(), peer.size()}, "ipv");
  return std::string(has_port ? peer.substr(0, peer.rfind(':')) : peer);
}

std::string ClientAddress(const grpc::CallbackServerContext& context) {
  const std::string peer = context.peer();
  if (peer != rpc::kInProcessPeer) return PeerHost(peer);
  const auto told = context.client_metadata().find(rpc::kHttpPeer);
  return told == context.client_metadata().end() ? peer : std::string(told->second.data(), told->second.size());
}

absl::StatusOr<std::string> IdentifyClient(const grpc::CallbackServerContext& context, const ClientTokens* tokens) {
  if (tokens == nullptr) return ClientAddress(context);
  if (const std::optional<std::string_view> token = BearerToken(context)) {
    if (std::optional<std::string> name = tokens->Find(*token)) return *std::move(name);
  }
  return absl::UnauthenticatedError("a valid token is needed: authorization: Bearer TOKEN");
}

}  // namespace kvrelay::router
