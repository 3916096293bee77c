// A Prefill call over gRPC: brings events to its PrefillFlow and what that sends to the client.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "common/worker/context.h"
#include "common/worker/kv_channels.h"
#include "kvrelay/worker/v1/prefill.pb.h"

namespace kvrelay::prefill_worker {

// Starts a call, which lives until gRPC is done with it. `request` is used only now; the others must outlive the call.
grpc::ServerWriteReactor<worker::v1::PrefillResponse>* StartPrefillCall(grpc::CallbackServerContext* call_context,
                                                                        const worker::WorkerContext* context,
                                                                        worker::KvChannels* channels,
                                                                        const worker::v1::PrefillRequest& request);

}  // namespace kvrelay::prefill_worker
