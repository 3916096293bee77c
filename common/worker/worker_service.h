// The status stream of a worker: load and heartbeat of its compute loop, read from the engine.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "common/worker/context.h"

namespace kvrelay::worker {

// `context` must outlive the service.
std::unique_ptr<grpc::Service> NewWorkerService(const WorkerContext* context);

}  // namespace kvrelay::worker
