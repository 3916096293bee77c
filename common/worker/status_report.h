// What a worker says of itself in WatchStatus, without gRPC. Thread-safe once calls are admitted.
#pragma once

#include "common/worker/context.h"
#include "kvrelay/worker/v1/worker.pb.h"

namespace kvrelay::worker {

v1::WatchStatusResponse StatusOf(const WorkerContext& context);

}  // namespace kvrelay::worker
