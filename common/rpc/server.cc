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

Server::Server(std::unique_ptr<grpc::Server> server, std::string address, std::vector<std::string> names)
    : server_(std::move(server)), address_(std::move(address)), names_(std::move(names)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const std::vector<ServedService>& services) {
  KV_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(options.listen));
  RouteGrpcLog();
  InstallPlugins();
  grpc::ServerBuilder builder;
  SetTransport(options, builder);
  int bound_port = 0;
  builder.AddListeningPort(JoinHostPort(address), grpc::InsecureServerCredentials(), &bound_port);
  std::vector<std::string> names;
  for (const ServedService& served : services) {
    builder.RegisterService(served.service);
    names.push_back(served.name);
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || bound_port <= 0) {
    const std::string cause = BindFailure(address);
    return CannotListen(options.listen, cause.empty() ? "unknown cause" : cause);
  }
  for (const std::string& name : names) server->GetHealthCheckService()->SetServingStatus(name, true);
  address.port = bound_port;
  return std::unique_ptr<Server>(new Server(std::move(server), JoinHostPort(address), std::move(names)));
}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

void Server::SetNotServing() { server_->GetHealthCheckService()->SetServingStatus(false); }

void Server::Shutdown(absl::Duration grace) {
  SetNotServing();
  server_->Shutdown(gpr_time_from_nanos(absl::ToInt64Nanoseconds(grace), GPR_TIMESPAN));
  server_->Wait();
}

}  // namespace kvrelay::rpc
