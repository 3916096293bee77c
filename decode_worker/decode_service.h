// The DecodeService: one call owns one reservation, from its Reserve to its end.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "common/worker/context.h"
#include "decode_worker/reservation.h"

namespace kvrelay::decode_worker {

// Both must outlive the service.
std::unique_ptr<grpc::Service> NewDecodeService(const worker::WorkerContext* context, ReservationTable* reservations);

}  // namespace kvrelay::decode_worker
