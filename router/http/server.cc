#include "router/http/server.h"

#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/server.h"
#include "router/http/request_context.h"

namespace kvrelay::http {
namespace {

// Connections that the system holds until they are accepted; the library's own 5 make a burst of clients wait a second.
constexpr int kBacklog = 512;

class Threads final : public httplib::ThreadPool {
 public:
  Threads(size_t count, Connections* connections) : ThreadPool(count), connections_(*connections) {}
  void enqueue(std::function<void()> serve) override {
    connections_.OnAccepted();
    ThreadPool::enqueue(std::move(serve));
  }

 private:
  Connections& connections_;
};

// Not SO_REUSEPORT, the library's choice: two processes on one port would each get some of the connections.
void SetSocketOptions(int fd) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

ApiError TooMany() {
  return {.status = 503,
          .message = "as many HTTP requests are being served as this router takes; try again later",
          .code = "too_many_requests",
          .retry_after_s = 1};
}

}  // namespace

Server::Server(size_t posts_max, const ConnectionTimes& times, std::unique_ptr<TlsContext> tls)
    : times_(times), tls_(std::move(tls)), connections_(posts_max + kSpareThreads, posts_max) {
  set_socket_options(SetSocketOptions);
  set_tcp_nodelay(true);
  new_task_queue = [this, threads = posts_max + kSpareThreads] { return new Threads(threads, &connections_); };
}

Server::~Server() {
  if (!listener_.joinable()) return;
  draining_ = true;
  connections_.Stop();
  stop();
  listener_.join();  // and with it all threads
}

bool Server::Bind(const rpc::HostPort& listen) {
  if (listen.port == 0) {
    const int port = bind_to_any_port(listen.host);
    address_ = rpc::JoinHostPort({listen.host, port});
    return port > 0;
  }
  address_ = rpc::JoinHostPort(listen);
  return bind_to_port(listen.host, listen.port);
}

absl::Status Server::Start(const rpc::HostPort& listen) {
  if (!Bind(listen)) {
    KV_RETURN_IF_ERROR(rpc::CheckCanListen(rpc::JoinHostPort(listen)));
    return absl::UnavailableError(absl::StrCat("cannot listen on ", rpc::JoinHostPort(listen), ": unknown cause"));
  }
  ::listen(svr_sock_, kBacklog);  // again, for a longer queue
  listener_ = std::thread([this] { Listen(); });
  while (!is_running()) absl::SleepFor(absl::Milliseconds(1));  // only then stop() stops it
  return absl::OkStatus();
}

// The library gives up its socket when it cannot accept a connection, for want of memory or files in the system, say.
void Server::Listen() {
  while (!listen_after_bind() && !draining_) {
    observability::LogError("http_accept_failed", {{"address", address_}});
    const rpc::HostPort bound = *rpc::ParseHostPort(address_);
    do {
      absl::SleepFor(absl::Seconds(1));
    } while (!draining_ && !bind_to_port(bound.host, bound.port));
  }
}

bool Server::process_and_close_socket(int fd) {
  const uint64_t number = connections_.Add(fd);
  SslSession session = tls_ == nullptr ? nullptr : tls_->NewSession();
  const bool ready = tls_ == nullptr || session != nullptr;
  Connection connection(fd, std::move(session), times_);
  try {
    if (ready) Serve(connection, number);
  } catch (const std::exception& error) {  // out of memory, say: that connection's loss alone
    observability::LogError("http_request_failed", {{"message", error.what()}});
  }
  connections_.Remove(number);
  return true;
}

void Server::Serve(Connection& connection, uint64_t number) {
  while (true) {
    ApiError refusal;
    const Connection::Outcome outcome = connection.ReadRequest(refusal);
    if (outcome == Connection::Outcome::kClosed) return;
    if (outcome == Connection::Outcome::kRefused) return connection.Refuse(refusal);
    if (connection.is_post() && !connections_.SetBusy(number)) return connection.Refuse(TooMany());
    const bool last = draining_;
    bool closed = false;
    const bool sent = process_request(connection, last, closed, [&](httplib::Request& request) {
      Prepare(request, [&connection] { return connection.Alive(); });
    });
    if (!sent || closed || last || !connection.consumed()) return;
    connections_.SetIdle(number);
  }
}

}  // namespace kvrelay::http
