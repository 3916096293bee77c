#include <variant>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/observability/log.h"
#include "common/rpc/credentials.h"
#include "common/rpc/options_metrics.h"
#include "common/rpc/process.h"
#include "common/rpc/server.h"
#include "kvrelay/v1/generation.grpc.pb.h"
#include "router/generation_service.h"
#include "router/grpc_clients.h"
#include "router/http/gateway.h"
#include "router/options.h"
#include "router/request_metrics.h"
#include "router/served_model.h"
#include "router/worker_registry.h"

namespace kvrelay::router {
namespace {

// Streams may run on for this long after the signal to stop; then they are cancelled, and their clients resume
// elsewhere.
constexpr absl::Duration kDrainGrace = absl::Seconds(25);

// Connections of clients without a call are closed after this time.
constexpr absl::Duration kMaxIdle = absl::Minutes(10);

// Null where it is not configured.
struct Security {
  std::unique_ptr<rpc::MutualTls> workers;
  std::unique_ptr<rpc::Certificates> certificates;  // of `server`
  std::shared_ptr<grpc::ServerCredentials> server;
  std::unique_ptr<ClientTokens> tokens;
};

absl::StatusOr<Security> LoadSecurity(const RouterOptions& options) {
  Security security;
  if (!options.tls.files.none()) {
    KV_ASSIGN_OR_RETURN(security.workers,
                        rpc::MutualTls::Load(options.tls.files, options.tls.trust_domain, rpc::PeerRole::kRouter));
  }
  if (!options.public_files.cert.empty()) {
    KV_ASSIGN_OR_RETURN(security.certificates, rpc::Certificates::Load(options.public_files));
    security.server = rpc::PublicServerCredentials(*security.certificates);
  }
  if (!options.client_tokens.empty()) {
    KV_ASSIGN_OR_RETURN(security.tokens, ClientTokens::Load(options.client_tokens));
  }
  return security;
}

// Null if it is not asked for.
absl::StatusOr<std::unique_ptr<http::Gateway>> StartHttp(const RouterOptions& options, const ModelFacts& model,
                                                         const rpc::Server& server) {
  if (options.http_listen.empty()) return nullptr;
  return http::Gateway::Start({.listen = options.http_listen,
                               .posts_max = options.http_max_requests,
                               .tls = options.public_files,
                               .cors_origin = options.http_cors_origin,
                               .model_name = model.name,
                               .fingerprint = model.fingerprint,
                               .context_length = model.context_length},
                              server.InProcessChannel());
}

absl::Status Serve(const RouterOptions& options, rpc::StopSignals& signals) {
  KV_ASSIGN_OR_RETURN(const std::unique_ptr<ServedModel> model, OpenServedModel(options.model, options.model_name));
  KV_ASSIGN_OR_RETURN(const Security security, LoadSecurity(options));
  signals.Block();
  WorkerChannels channels(security.workers.get());
  WorkerRegistry registry({.targets = options.workers, .fingerprint = model->facts().fingerprint}, &channels,
                          Clock::Real());
  AdmissionQueue admission(options.queue);
  PlacementMemory memory;
  FlowLimits limits;
  limits.queue_timeout = options.queue_timeout;
  const auto decode_client = NewGrpcDecodeClient(&channels);
  const auto prefill_client = NewGrpcPrefillClient(&channels);
  observability::Metrics metrics;
  RequestMetrics request_metrics(&metrics);
  RecentRequests recent;
  const auto service = NewGenerationService({.model = model.get(),
                                             .clock = Clock::Real(),
                                             .registry = &registry,
                                             .admission = &admission,
                                             .memory = &memory,
                                             .decode_client = decode_client.get(),
                                             .prefill_client = prefill_client.get(),
                                             .metrics = &request_metrics,
                                             .recent = &recent,
                                             .limits = limits},
                                            {.instance = options.instance,
                                             .max_active = options.max_active,
                                             .tokens = security.tokens.get(),
                                             .quotas = options.quotas});
  const auto waiting = [&admission] { return static_cast<double>(admission.size()); };
  metrics.AddGauge("kvrelay_requests_waiting", "Requests that wait for room on a worker", waiting);
  metrics.AddGauge("kvrelay_requests_running", "Requests in the router that do not wait",
                   [&service, waiting] { return std::max(0.0, service->active() - waiting()); });
  KV_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::Server> server,
                      rpc::Server::Start({.listen = options.listen,
                                          .credentials = security.server,
                                          .health_listen = options.tls.health_listen,
                                          .max_idle = kMaxIdle},
                                         {{v1::GenerationService::service_full_name(), service->service()}}));
  KV_ASSIGN_OR_RETURN(const std::unique_ptr<http::Gateway> gateway, StartHttp(options, model->facts(), *server));
  observability::LogInfo("ready", {{"role", "router"},
                                   {"instance", options.instance},
                                   {"address", server->address()},
                                   {"http", gateway ? gateway->address() : ""},
                                   {"model", model->facts().name},
                                   {"tls", security.server != nullptr},
                                   {"worker_tls", security.workers != nullptr},
                                   {"tokens", security.tokens != nullptr},
                                   {"workers", options.workers.size()},
                                   {"version", Version()}});
  // The file of gRPC comes last: whoever sees it may look for the other one.
  if (gateway != nullptr && !options.http_port_file.empty()) {
    KV_RETURN_IF_ERROR(rpc::WritePortFile(options.http_port_file, gateway->address()));
  }
  KV_ASSIGN_OR_RETURN(const auto metrics_server, rpc::ServeMetrics(options.metrics, &metrics));
  if (!options.port_file.empty()) KV_RETURN_IF_ERROR(rpc::WritePortFile(options.port_file, server->address()));

  const int signal = signals.Wait();
  observability::LogInfo("draining", {{"signal", signal}});
  server->SetNotServing();
  service->Drain();
  const absl::Duration end = Clock::Real()->Now() + kDrainGrace;
  if (gateway != nullptr) gateway->Drain(kDrainGrace);
  server->Shutdown(std::max(end - Clock::Real()->Now(), absl::ZeroDuration()));
  observability::LogInfo("stopped");
  return absl::OkStatus();
}

int Run(int argc, char** argv) {
  const auto options = ParseOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&options)) return *exit_code;
  const auto& parsed = std::get<RouterOptions>(options);
  observability::InitLog(parsed.log_format, parsed.log_level);
  rpc::RaiseFileLimit();
  rpc::StopSignals signals;
  const absl::Status status = Serve(parsed, signals);
  if (status.ok()) return 0;
  observability::LogError("failed", {{"role", "router"},
                                     {"code", absl::StatusCodeToString(status.code())},
                                     {"message", std::string(status.message())}});
  return 1;
}

}  // namespace
}  // namespace kvrelay::router

int main(int argc, char** argv) { return kvrelay::router::Run(argc, argv); }
