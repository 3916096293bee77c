// A gRPC server with the project's settings: one address that nobody else may share, health, reflection, keepalive,
// limits and an orderly end.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/host_port.h"

namespace kvrelay::rpc {

// A connection that has not finished its handshake within this time is closed.
inline constexpr absl::Duration kHandshakeTimeout = absl::Seconds(10);

struct ServerOptions {
  std::string listen;                                              // host:port; port 0: a free one
  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr;  // null: plaintext
  std::string health_listen = {};     // host:port of a second, plaintext port with health alone; empty: none
  int max_receive_bytes = 4 << 20;    // one message; larger ones end their call with RESOURCE_EXHAUSTED
  int max_concurrent_streams = 1000;  // per connection; further calls wait in the client
  absl::Duration max_idle = absl::InfiniteDuration();  // connections without calls are closed after this time
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
  const std::string& address() const { return main_.address; }
  // The same of the second port; empty: none.
  const std::string& health_address() const { return health_.address; }

  // To the services from within this process: neither credentials nor the limits of connections count. Calls over it
  // end with Shutdown as all others do.
  std::shared_ptr<grpc::Channel> InProcessChannel() const;

  // Health says NOT_SERVING from now on; calls are still taken, the services refuse what they must.
  void SetNotServing();
  // No new calls; waits up to `grace` for those that run, then cancels them. Returns when all have ended. Idempotent.
  void Shutdown(absl::Duration grace);

 private:
  // A server of gRPC, and host:port as bound; the second one may be missing.
  struct Bound {
    std::unique_ptr<grpc::Server> server;
    std::string address;
  };

  static absl::StatusOr<Bound> Listen(const std::string& listen, const ServerOptions& options,
                                      const std::shared_ptr<grpc::ServerCredentials>& credentials,
                                      const std::vector<ServedService>& services);
  Server(Bound main, Bound health);

  const Bound main_, health_;
};

// Whether an address can be bound now; the errors of Server::Start. For programs that load for long before they listen.
absl::Status CheckCanListen(const std::string& listen);

}  // namespace kvrelay::rpc
