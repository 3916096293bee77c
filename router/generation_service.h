// kvrelay.v1.GenerationService: finds out who calls, checks, and hands over. Text work runs on a pool of its own;
// everything else is quick.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>

#include "router/client_quotas.h"
#include "router/client_tokens.h"
#include "router/generate_call.h"

namespace kvrelay::router {

struct ServiceOptions {
  std::string instance;
  uint32_t max_active = 256;  // requests in the router; more are refused with RESOURCE_EXHAUSTED
  int text_threads = 2;
  const ClientTokens* tokens = nullptr;  // null: clients need none; must outlive the service
  QuotaLimits quotas = {};               // of each client
};

// Thread-safe. Must outlive the server that serves it, and be destroyed only after that server has shut down.
class GenerationService {
 public:
  virtual ~GenerationService() = default;
  virtual grpc::Service* service() = 0;
  // Requests in the router now, those that wait for room included.
  virtual uint32_t active() const = 0;
  // New Generate calls are refused with UNAVAILABLE from now on.
  virtual void Drain() = 0;
};

std::unique_ptr<GenerationService> NewGenerationService(const Backend& backend, const ServiceOptions& options);

}  // namespace kvrelay::router
