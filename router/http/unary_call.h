// One unary call of the service for an HTTP request.
#pragma once

#include "common/rpc/status_mapping.h"
#include "router/http/handlers.h"

namespace kvrelay::http {

// Calls that do not generate are short; one that is not has lost its service.
inline constexpr int64_t kCallTimeMs = 30000;

// Blocks the thread of the connection. DEADLINE_EXCEEDED after kCallTimeMs.
template <typename Method, typename Request, typename Response>
absl::Status UnaryCall(const Backend& backend, Method method, const RequestContext& context, const Request& request,
                       Response* response) {
  grpc::ClientContext call;
  for (const auto& [name, value] : context.metadata) call.AddMetadata(name, value);
  call.set_deadline(gpr_time_from_millis(kCallTimeMs, GPR_TIMESPAN));
  return rpc::FromGrpc(((*backend.stub).*method)(&call, request, response));
}

}  // namespace kvrelay::http
