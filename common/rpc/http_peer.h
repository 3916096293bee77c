// How the HTTP gateway of a router tells the router's service, inside one process, whom it asks for.
#pragma once

namespace kvrelay::rpc {

// Metadata with the address of the HTTP client, as gRPC writes peers, without the port: ipv4:10.0.0.1. Counts only in
// calls from kInProcessPeer: anyone can send metadata.
inline constexpr char kHttpPeer[] = "x-kvrelay-http-peer";

// What gRPC 1.51 calls the peer of a call from the server's own process. Calls over a network always have an address.
inline constexpr char kInProcessPeer[] = "unknown";

}  // namespace kvrelay::rpc
