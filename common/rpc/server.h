// A gRPC server with the project's settings: one address that nobody else may share, health, reflection, keepalive,
// limits and an orderly end.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/host_port.h"

namespace kvrelay::rpc {

struct ServerOptions {
  std::string listen;                 // host:port; port 0: a free one
  int max_receive_bytes = 4 << 20;    // one message; larger ones end their call with RESOURCE_EXHAUSTED
  int max_concurrent_streams = 1000;  // per connection
};

struct ServedService {
  std::string name;        // full name, for health: MyService::service_full_name()
  grpc::Service* service;  // must outlive the server
};

// Thread-safe.
class Server {
 public:
  // Listens and serves. INVALID_ARGUMENT for a malformed address, UNAVAILABLE naming address and cause if it cannot be
  // bound.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const std::vector<ServedService>& services);
  ~Server();  // Shutdown without grace

  // host:port as bound.
  const std::string& address() const { return address_; }

  // Health says NOT_SERVING from now on; calls are still taken, the services refuse what they must.
  void SetNotServing();
  // No new calls; waits up to `grace` for those that run, then cancels them. Returns when all have ended. Idempotent.
  void Shutdown(absl::Duration grace);

 private:
  Server(std::unique_ptr<grpc::Server> server, std::string address, std::vector<std::string> names);

  const std::unique_ptr<grpc::Server> server_;
  const std::string address_;
  const std::vector<std::string> names_;
};

// Whether an address can be bound now; the errors of Server::Start. For programs that load for long before they listen.
absl::Status CheckCanListen(const std::string& listen);

}  // namespace kvrelay::rpc
