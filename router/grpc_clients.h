// The gRPC implementations of DecodeClient and PrefillClient.
#pragma once

#include <memory>

#include "router/decode_client.h"
#include "router/prefill_client.h"
#include "router/worker_channels.h"

namespace kvrelay::router {

// `channels` must outlive the client; calls may outlive both.
std::unique_ptr<DecodeClient> NewGrpcDecodeClient(WorkerChannels* channels);
std::unique_ptr<PrefillClient> NewGrpcPrefillClient(WorkerChannels* channels);

}  // namespace kvrelay::router
