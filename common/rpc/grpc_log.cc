#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string_view>

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

// Of metadata that gRPC cannot parse it writes name and value; values are for nobody's eyes.
std::string_view WithoutMetadata(std::string_view message) {
  return message.starts_with("Error parsing metadata") ? message.substr(0, message.find(" value=")) : message;
}

void Forward(gpr_log_func_args* args) {
  observability::Log(Level(args->severity), "grpc", {{"message", WithoutMetadata(args->message)}});
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(&Forward); }

}  // namespace kvrelay::rpc
