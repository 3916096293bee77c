#include <utility>
#include <variant>

#include "common/worker/run_worker.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/kv_receiver.h"
#include "decode_worker/options.h"
#include "kvrelay/worker/v1/decode.grpc.pb.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"

int main(int argc, char** argv) {
  using namespace kvrelay;  // NOLINT: main only
  const auto options = decode_worker::ParseOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&options)) return *exit_code;
  decode_worker::ReservationTable reservations;
  const worker::Role role{
      .name = "decode",
      .peer_role = rpc::PeerRole::kDecode,
      .receives_kv = true,
      .max_receive_bytes = decode_worker::kMaxKvMessageBytes,
      .make_services = [&](const worker::WorkerContext* context) {
        std::vector<worker::RoleService> services;
        services.push_back(
            {worker::v1::DecodeService::service_full_name(), decode_worker::NewDecodeService(context, &reservations)});
        services.push_back({worker::v1::KvService::service_full_name(), decode_worker::NewKvService(&reservations)});
        return services;
      }};
  return worker::RunWorker(std::get<worker::WorkerOptions>(options), role);
}
