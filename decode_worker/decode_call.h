// A Decode call over gRPC: brings commands to its DecodeFlow and what that sends to the router.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "common/worker/context.h"
#include "common/worker/kv_channels.h"
#include "decode_worker/reservation.h"
#include "kvrelay/worker/v1/decode.pb.h"

namespace kvrelay::decode_worker {

// Starts a call, which lives until gRPC is done with it. All pointers must outlive the call.
grpc::ServerBidiReactor<worker::v1::DecodeRequest, worker::v1::DecodeResponse>* StartDecodeCall(
    grpc::CallbackServerContext* call_context, const worker::WorkerContext* context, ReservationTable* reservations,
    worker::KvChannels* channels);

}  // namespace kvrelay::decode_worker
