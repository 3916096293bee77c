#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include "common/observability/log.h"

namespace kvrelay::rpc {
namespace {

observability::LogLevel Level(gpr_log_severity severity) {
  switch (severity) {
    case GPR_LOG_SEVERITY_DEBUG:
      return observability::LogLevel::kDebug;
    case GPR_LOG_SEVERITY_INFO:
      return observability::LogLevel::kInfo;
    case GPR_LOG_SEVERITY_ERROR:
      // gRPC calls ordinary events errors (a refused connection, a broken peer); what matters to us comes back as a
      // status.
      return observability::LogLevel::kWarning;
  }
  return observability::LogLevel::kWarning;
}

void Forward(gpr_log_func_args* args) {
  observability::Log(Level(args->severity), "grpc", {{"message", args->message}});
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(&Forward); }

}  // namespace kvrelay::rpc
