#include "common/worker/run_worker.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/kernels/matmul.h"
#include "common/model/model.h"
#include "common/model_file/model_file.h"
#include "common/observability/log.h"
#include "common/rpc/options_metrics.h"
#include "common/rpc/process.h"
#include "common/rpc/server.h"
#include "common/worker/task_thread.h"
#include "common/worker/worker_metrics.h"
#include "common/worker/worker_service.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"

namespace kvrelay::worker {
namespace {

// How long calls may go on after the first signal. Kubernetes kills after 30 s by default.
constexpr absl::Duration kDrainGrace = absl::Seconds(20);

struct LoadedModel {
  std::unique_ptr<model::Model> model;
  std::vector<int32_t> eos_ids;
  std::unique_ptr<GrammarCache> grammars;
};

absl::StatusOr<LoadedModel> LoadModel(const WorkerOptions& options) {
  KV_ASSIGN_OR_RETURN(const std::string backend, kernels::InitMatmulBackend(options.matmul, options.isa));
  observability::LogInfo("loading", {{"model", options.model}, {"backend", backend}});
  KV_ASSIGN_OR_RETURN(const std::unique_ptr<model_file::ModelFile> file, model_file::ModelFile::Open(options.model));
  LoadedModel loaded;
  KV_ASSIGN_OR_RETURN(loaded.model, model::Model::Load(*file, options.matmul, options.isa));
  // As the router knows them: both ask the vocabulary.
  KV_ASSIGN_OR_RETURN(std::unique_ptr<text::Grammars> grammars, text::Grammars::FromFile(*file));
  loaded.eos_ids.assign(grammars->ends().begin(), grammars->ends().end());
  loaded.grammars = std::make_unique<GrammarCache>(std::move(grammars));
  return loaded;
}

absl::StatusOr<std::unique_ptr<engine::Engine>> StartEngine(const WorkerOptions& options, const model::Model& model) {
  const model::ModelConfig& config = model.config();
  const kv::KvLayout layout{
      .layers = config.layers, .kv_heads = config.kv_heads, .head_dim = config.head_dim, .type = options.kv_type};
  const uint64_t blocks = (uint64_t(options.kv_pool_mib) << 20) / layout.BlockBytes();
  if (blocks == 0 || blocks > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("a KV pool of ", options.kv_pool_mib, " MiB holds ", blocks,
                                                   " blocks of ", layout.BlockBytes(),
                                                   " bytes; set --kv-pool-mib so that it holds at least 1"));
  }
  return engine::Engine::Create(&model,
                                {.threads = options.threads,
                                 .cpus = options.cpus,
                                 .kv_blocks = static_cast<int>(blocks),
                                 .kv_type = options.kv_type,
                                 .context_length = options.context_length,
                                 .prefill_chunk = options.prefill_chunk,
                                 .step_budget = options.step_budget,
                                 .draft_tokens = options.draft_tokens,
                                 .max_sessions = options.max_sessions},
                                Clock::Real());
}

// Null without TLS.
absl::StatusOr<std::unique_ptr<rpc::MutualTls>> LoadTls(const WorkerOptions& options, const Role& role) {
  if (options.tls.files.none()) return nullptr;
  return rpc::MutualTls::Load(options.tls.files, options.tls.trust_domain, role.peer_role);
}

void FillContext(const WorkerOptions& options, const Role& role, const LoadedModel& loaded, WorkerContext& context) {
  context.clock = Clock::Real();
  context.role = role.name;
  context.kernel_id = loaded.model->kernel_id();
  context.vocabulary = loaded.model->config().vocabulary;
  context.eos_ids = loaded.eos_ids;
  context.grammars = loaded.grammars.get();
  v1::WorkerIdentity& identity = context.identity;
  identity.set_instance(options.instance);
  identity.set_epoch(Clock::Real()->UnixNanos());
  identity.set_model_fingerprint(loaded.model->fingerprint());
  identity.set_numerics_id(context.engine->numerics_id());
  identity.set_version(Version());
}

void LogReady(const WorkerOptions& options, const WorkerContext& context, const std::string& model,
              const std::string& address) {
  observability::LogInfo("ready", {{"role", context.role},
                                   {"instance", context.identity.instance()},
                                   {"address", address},
                                   {"kv_address", context.kv_address},
                                   {"tls", context.tls != nullptr},
                                   {"model", model},
                                   {"fingerprint", context.identity.model_fingerprint()},
                                   {"numerics_id", context.identity.numerics_id()},
                                   {"kernel_id", context.kernel_id},
                                   {"threads", options.threads},
                                   {"pinned", !options.cpus.empty()},
                                   {"context_length", context.engine->context_length()},
                                   {"kv_blocks", context.engine->Load().kv_blocks_total},
                                   {"version", Version()}});
}

absl::Status Serve(const WorkerOptions& options, const Role& role, rpc::StopSignals& signals) {
  // Before the model is read, which takes seconds.
  KV_RETURN_IF_ERROR(rpc::CheckCanListen(options.listen));
  for (const std::string& listen : {options.tls.health_listen, options.metrics.listen}) {
    if (!listen.empty()) KV_RETURN_IF_ERROR(rpc::CheckCanListen(listen));
  }
  KV_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::MutualTls> tls, LoadTls(options, role));
  KV_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModel(options));
  signals.Block();
  KV_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine, StartEngine(options, *loaded.model));
  LiveCalls calls;
  Ticker ticker;
  TaskThread tasks;
  TokenBudget prompt_tokens(options.queue_tokens);
  kv_wire::SendBudget kv_in_flight(options.kv_in_flight_bytes);
  WorkerContext context;
  context.engine = engine.get();
  context.calls = &calls;
  context.ticker = &ticker;
  context.tasks = &tasks;
  context.prompt_tokens = &prompt_tokens;
  context.kv_in_flight = &kv_in_flight;
  context.queue_timeout = options.queue_timeout;
  context.tls = tls.get();
  FillContext(options, role, loaded, context);

  std::vector<RoleService> services = role.make_services(&context);
  services.push_back({v1::WorkerService::service_full_name(), NewWorkerService(&context)});
  std::vector<rpc::ServedService> served;
  for (const RoleService& service : services) served.push_back({service.name, service.service.get()});
  KV_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::Server> server,
                      rpc::Server::Start({.listen = options.listen,
                                          .credentials = tls == nullptr ? nullptr : tls->Server(),
                                          .health_listen = options.tls.health_listen,
                                          .max_receive_bytes = role.max_receive_bytes},
                                         served));
  if (role.receives_kv) context.kv_address = options.advertise.empty() ? server->address() : options.advertise;
  observability::Metrics metrics;
  AddWorkerMetrics(&context, &metrics);
  KV_ASSIGN_OR_RETURN(const auto metrics_server, rpc::ServeMetrics(options.metrics, &metrics));
  calls.Open();
  LogReady(options, context, loaded.model->config().name, server->address());
  if (!options.port_file.empty()) KV_RETURN_IF_ERROR(rpc::WritePortFile(options.port_file, server->address()));

  const int signal = signals.Wait();
  observability::LogInfo("draining", {{"signal", signal}});
  server->SetNotServing();
  calls.Drain();
  const bool idle = calls.WaitUntilIdle(kDrainGrace);
  server->Shutdown(absl::ZeroDuration());
  observability::LogInfo("stopped", {{"idle", idle}});
  return absl::OkStatus();
}

}  // namespace

int RunWorker(const WorkerOptions& options, const Role& role) {
  observability::InitLog(options.log_format, options.log_level);
  rpc::RaiseFileLimit();
  rpc::StopSignals signals;
  const absl::Status status = Serve(options, role, signals);
  if (status.ok()) return 0;
  observability::LogError("failed", {{"role", role.name},
                                     {"code", absl::StatusCodeToString(status.code())},
                                     {"message", std::string(status.message())}});
  return 1;
}

}  // namespace kvrelay::worker
