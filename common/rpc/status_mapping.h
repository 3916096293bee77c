// The one place where absl::Status and grpc::Status meet. Codes are the same numbers on both sides. Messages are made
// valid UTF-8 and bounded, since they may quote what a peer sent. A retry delay travels as google.rpc.RetryInfo inside
// grpc-status-details-bin, which every gRPC client understands.
//
// Pure; thread-safe.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kvrelay::rpc {

// Longer messages are cut, so that trailers stay within gRPC's default of 8 KiB of metadata.
inline constexpr size_t kMaxMessageBytes = 1024;

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// The same status with the advice to try again after `delay`.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

}  // namespace kvrelay::rpc
