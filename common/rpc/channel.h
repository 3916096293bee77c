// Client channels with the project's transport settings.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace kvrelay::rpc {

// A dead or half-open peer is noticed within their sum, by both sides.
inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(10);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);

// A new channel to host:port. Every channel has connections of its own, so that a KV transfer never delays the tokens
// of a stream to the same worker. Connects lazily; a lost connection is tried again within 2 s. Calls are never
// repeated by the library: what may be repeated is decided by those who know the request.
//
// Thread-safe, as gRPC channels are.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address);

}  // namespace kvrelay::rpc
