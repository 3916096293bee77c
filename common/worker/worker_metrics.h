// What a worker tells Prometheus: its load, read from the engine when it is asked for.
#pragma once

#include "common/observability/metrics.h"
#include "common/worker/context.h"

namespace kvrelay::worker {

// `context` and what it points to must outlive `metrics`.
void AddWorkerMetrics(const WorkerContext* context, observability::Metrics* metrics);

}  // namespace kvrelay::worker
