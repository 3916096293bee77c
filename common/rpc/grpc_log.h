// Sends gRPC's own messages through our log, so that the program writes one kind of line.
#pragma once

namespace kvrelay::rpc {

// Idempotent; thread-safe.
void RouteGrpcLog();

}  // namespace kvrelay::rpc
