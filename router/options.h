// Flags of the router. Each has an environment name: KVRELAY_ and the flag in capitals with underscores, for example
// KVRELAY_MAX_ACTIVE; a flag wins over the environment.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/observability/log.h"
#include "common/rpc/options_metrics.h"
#include "common/rpc/options_tls.h"
#include "router/admission.h"
#include "router/client_quotas.h"
#include "router/worker_address.h"

namespace kvrelay::router {

struct RouterOptions {
  std::string model;
  std::string model_name;  // empty: from the model file
  std::string listen = "127.0.0.1:0";
  std::string instance;        // after parsing never empty
  std::string port_file;       // empty: none
  std::string http_listen;     // empty: no HTTP
  std::string http_port_file;  // empty: none
  uint32_t http_max_requests = 256;
  std::string http_cors_origin;  // empty: none
  std::vector<WorkerTarget> workers;
  uint32_t max_active = 1024;
  AdmissionLimits queue;
  absl::Duration queue_timeout = absl::Seconds(30);
  rpc::MetricsOptions metrics;
  rpc::TlsOptions tls;         // towards workers
  rpc::TlsFiles public_files;  // towards clients; after parsing with the defaults of `tls`; no certificate: plaintext
  std::string client_tokens;   // empty: none are asked for
  QuotaLimits quotas;
  observability::LogFormat log_format = observability::LogFormat::kText;
  observability::LogLevel log_level = observability::LogLevel::kInfo;
};

// The options, or the exit code if the program is done: 0 after --help or --version, 2 for a bad value, whose message
// is on standard error.
std::variant<RouterOptions, int> ParseOptions(int argc, const char* const* argv);

}  // namespace kvrelay::router
