// Where a process serves its metrics, as flags say it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/flags.h"
#include "common/observability/metrics.h"

namespace kvrelay::rpc {

struct MetricsOptions {
  std::string listen;     // host:port; empty: nowhere
  std::string port_file;  // empty: none
};

void AddMetricsFlags(Flags& flags, MetricsOptions& options);

// Null if `options` say nowhere. `metrics` must outlive the server. INVALID_ARGUMENT: not host:port. UNAVAILABLE: the
// port is taken.
absl::StatusOr<std::unique_ptr<observability::MetricsServer>> ServeMetrics(const MetricsOptions& options,
                                                                           observability::Metrics* metrics);

}  // namespace kvrelay::rpc
