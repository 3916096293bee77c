#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_log.h"

namespace kvrelay::rpc {
namespace {

// Health and reflection are switches of the process, to be thrown before the first server is built.
void InstallPlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

void SetTransport(const ServerOptions& options, grpc::ServerBuilder& builder) {
  // Without this, Linux lets two processes listen on one port and splits the calls between them.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(kKeepaliveTime));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, absl::ToInt64Milliseconds(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Clients ping every kKeepaliveTime on quiet connections; with the default of 5 minutes the server would hang up on
  // them.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             absl::ToInt64Milliseconds(kKeepaliveTime / 2));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, absl::ToInt64Milliseconds(kHandshakeTimeout));
  if (options.max_idle < absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, absl::ToInt64Milliseconds(options.max_idle));
  }
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
}

// Why an address cannot be bound, empty if it can: gRPC only says that it could not.
std::string BindFailure(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return gai_strerror(error);
  std::string cause;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // as gRPC does: connections that linger do not count
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0) cause = std::strerror(errno);
    close(fd);
  }
  freeaddrinfo(found);
  return cause;
}

void WarnOfPlaintext(const ServerOptions& options) {
  const absl::StatusOr<HostPort> address = ParseHostPort(options.listen);
  if (options.credentials != nullptr || !address.ok() || IsLoopback(*address)) return;
  observability::LogWarning("plaintext", {{"listen", options.listen},
                                          {"message",
                                           "there is no TLS: whoever reaches this port may use it, and "
                                           "whoever is on the way may read and change what is said"}});
}

absl::Status CannotListen(const std::string& listen, const std::string& cause) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", listen, ": ", cause, "; choose another address, or port 0 for a free one"));
}

}  // namespace

absl::Status CheckCanListen(const std::string& listen) {
  KV_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(listen));
  const std::string cause = BindFailure(address);
  return cause.empty() ? absl::OkStatus() : CannotListen(listen, cause);
}

Server::Server(Bound main, Bound health) : main_(std::move(main)), health_(std::move(health)) {}

absl::StatusOr<Server::Bound> Server::Listen(const std::string& listen, const ServerOptions& options,
                                             const std::shared_ptr<grpc::ServerCredentials>& credentials,
                                             const std::vector<ServedService>& services) {
  KV_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(listen));
  grpc::ServerBuilder builder;
  SetTransport(options, builder);
  int bound_port = 0;
  builder.AddListeningPort(JoinHostPort(address), credentials, &bound_port);
  for (const ServedService& served : services) builder.RegisterService(served.service);
  Bound bound;
  bound.server = builder.BuildAndStart();
  if (bound.server == nullptr || bound_port <= 0) {
    const std::string cause = BindFailure(address);
    return CannotListen(listen, cause.empty() ? "unknown cause" : cause);
  }
  address.port = bound_port;
  bound.address = JoinHostPort(address);
  return bound;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const std::vector<ServedService>& services) {
  RouteGrpcLog();
  InstallPlugins();
  const auto plaintext = grpc::InsecureServerCredentials();
  const auto& credentials = options.credentials == nullptr ? plaintext : options.credentials;
  WarnOfPlaintext(options);
  KV_ASSIGN_OR_RETURN(Bound main, Listen(options.listen, options, credentials, services));
  Bound health;
  if (!options.health_listen.empty()) {
    KV_ASSIGN_OR_RETURN(health, Listen(options.health_listen, options, plaintext, {}));
  }
  for (const Bound* bound : {&main, &health}) {
    if (bound->server == nullptr) continue;
    for (const ServedService& served : services) {
      bound->server->GetHealthCheckService()->SetServingStatus(served.name, true);
    }
  }
  return std::unique_ptr<Server>(new Server(std::move(main), std::move(health)));
}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

std::shared_ptr<grpc::Channel> Server::InProcessChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // what our own services send is not more than they may
  return main_.server->InProcessChannel(arguments);
}

void Server::SetNotServing() {
  main_.server->GetHealthCheckService()->SetServingStatus(false);
  if (health_.server != nullptr) health_.server->GetHealthCheckService()->SetServingStatus(false);
}

void Server::Shutdown(absl::Duration grace) {
  SetNotServing();
  main_.server->Shutdown(gpr_time_from_nanos(absl::ToInt64Nanoseconds(grace), GPR_TIMESPAN));
  main_.server->Wait();
  if (health_.server == nullptr) return;
  health_.server->Shutdown(gpr_time_0(GPR_TIMESPAN));
  health_.server->Wait();
}

}  // namespace kvrelay::rpc
