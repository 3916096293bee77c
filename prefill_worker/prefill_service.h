// The PrefillService: one call owns one job, from its admission to the receipt of the KV.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "common/worker/context.h"

namespace kvrelay::prefill_worker {

// `context` must outlive the service. The service owns the connections to decode workers.
std::unique_ptr<grpc::Service> NewPrefillService(const worker::WorkerContext* context);

}  // namespace kvrelay::prefill_worker
