// Client channels with the project's transport settings.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace kvrelay::rpc {

// A dead or half-open peer is noticed within their sum, by both sides.
inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(10);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);

// Most bytes of metadata (names and values) of a call in one direction; more end it with RESOURCE_EXHAUSTED.
inline constexpr int kMaxMetadataBytes = 8 << 10;

// A new channel to host:port. Every channel has connections of its own, so that a KV transfer never delays the tokens
// of a stream to the same worker. Connects lazily; a lost connection is tried again within 2 s. Calls are never
// repeated by the library: what may be repeated is decided by those who know the request. Without `credentials`,
// plaintext.
//
// Thread-safe, as gRPC channels are.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                          const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr);

}  // namespace kvrelay::rpc
