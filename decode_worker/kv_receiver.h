// The KvService: takes KV into reservations. Frames are checked and copied on the RPC's thread; nothing is computed
// there.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "decode_worker/reservation.h"

namespace kvrelay::decode_worker {

// Largest message a receiver takes. A frame of 64 positions of a 70B-class model in f32 has 1 MiB.
inline constexpr int kMaxKvMessageBytes = 16 << 20;

// `reservations` must outlive the service.
std::unique_ptr<grpc::Service> NewKvService(const ReservationTable* reservations);

}  // namespace kvrelay::decode_worker
