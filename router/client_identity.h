// Whose call it is: the name that a client's bearer token stands for, or, where no tokens are asked for, its address
// without the port. For a call of the HTTP gateway that is the address of the HTTP client.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "router/client_tokens.h"

namespace kvrelay::router {

// The address of a peer as gRPC writes it, without the port: ipv4:10.0.0.1:50051 is ipv4:10.0.0.1.
std::string PeerHost(std::string_view peer);

// The address of who calls, without the port.
std::string ClientAddress(const grpc::CallbackServerContext& context);

// `tokens` null: none are asked for. UNAUTHENTICATED, in the same words whatever is wrong: no or several tokens,
// another scheme than Bearer, an unknown token.
absl::StatusOr<std::string> IdentifyClient(const grpc::CallbackServerContext& context, const ClientTokens* tokens);

}  // namespace kvrelay::router
