// The HTTP server under the gateway: listens, gives each connection a thread, and keeps within its limits. Routes are
// set by whoever makes it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/rpc/host_port.h"
#include "router/http/connection.h"
#include "router/http/connections.h"
#include "router/http/library.h"
#include "router/http/tls_context.h"

namespace kvrelay::http {

// Thread-safe after Start; before it, set routes.
class Server final : public httplib::Server {
 public:
  // `posts_max`: requests by POST at a time; more are answered 503. Others have kSpareThreads beside them.
  // `tls` null: plaintext.
  Server(size_t posts_max, const ConnectionTimes& times, std::unique_ptr<TlsContext> tls);
  ~Server() override;  // ends all connections

  // Listens and serves. UNAVAILABLE naming address and cause if it cannot be bound.
  absl::Status Start(const rpc::HostPort& listen);
  // host:port as bound.
  const std::string& address() const { return address_; }

  // From now on each answer is the last one of its connection. Returns when no POST is being served, or after `grace`.
  void Drain(absl::Duration grace) {
    draining_ = true;
    connections_.WaitUntilNoneIsBusy(grace);
  }
  bool draining() const { return draining_; }

  static constexpr size_t kSpareThreads = 64;

 private:
  bool process_and_close_socket(int fd) override;
  void Serve(Connection& connection, uint64_t number);
  void Listen();
  bool Bind(const rpc::HostPort& listen);

  const ConnectionTimes times_;
  const std::unique_ptr<TlsContext> tls_;
  Connections connections_;
  std::atomic<bool> draining_{false};
  std::string address_;
  std::thread listener_;
};

}  // namespace kvrelay::http
