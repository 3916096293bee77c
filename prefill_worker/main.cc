#include <utility>
#include <variant>

#include "common/worker/options.h"
#include "common/worker/run_worker.h"
#include "kvrelay/worker/v1/prefill.grpc.pb.h"
#include "prefill_worker/prefill_service.h"

int main(int argc, char** argv) {
  using namespace kvrelay;  // NOLINT: main only
  const auto options = worker::ParseWorkerOptions(argc, argv, "prefill");
  if (const int* exit_code = std::get_if<int>(&options)) return *exit_code;
  const worker::Role role{.name = "prefill",
                          .peer_role = rpc::PeerRole::kPrefill,
                          .make_services = [](const worker::WorkerContext* context) {
                            std::vector<worker::RoleService> services;
                            services.push_back({worker::v1::PrefillService::service_full_name(),
                                                prefill_worker::NewPrefillService(context)});
                            return services;
                          }};
  return worker::RunWorker(std::get<worker::WorkerOptions>(options), role);
}
