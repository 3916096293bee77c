#include "common/rpc/options_metrics.h"

#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/options_flags.h"
#include "common/rpc/process.h"
#include "common/rpc/server.h"

namespace kvrelay::rpc {

void AddMetricsFlags(Flags& flags, MetricsOptions& options) {
  AddFlag(flags, "metrics-listen", options.listen,
          "address to serve Prometheus metrics on (/metrics, plain HTTP), host:port; port 0 takes a free one (default: "
          "none)");
  AddFlag(flags, "metrics-port-file", options.port_file, "file to write host:port to once metrics are served");
}

absl::StatusOr<std::unique_ptr<observability::MetricsServer>> ServeMetrics(const MetricsOptions& options,
                                                                           observability::Metrics* metrics) {
  if (options.listen.empty()) return nullptr;
  KV_RETURN_IF_ERROR(CheckCanListen(options.listen));
  KV_ASSIGN_OR_RETURN(std::unique_ptr<observability::MetricsServer> server, metrics->Serve(options.listen));
  observability::LogInfo("metrics", {{"address", server->address()}});
  if (!options.port_file.empty()) KV_RETURN_IF_ERROR(WritePortFile(options.port_file, server->address()));
  return server;
}

}  // namespace kvrelay::rpc
