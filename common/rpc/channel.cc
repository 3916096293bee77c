#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>

#include "common/rpc/callback_queue.h"
#include "common/rpc/grpc_log.h"

namespace kvrelay::rpc {

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                          const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  RouteGrpcLog();
  KeepCallbackQueue();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(kKeepaliveTime));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, absl::ToInt64Milliseconds(kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // What clients receive are token streams: with the window left at 64 KiB a slow reader is noticed soon. Servers,
  // which receive KV, let it grow.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // An http_proxy of the environment is meant for the outside, never for the workers.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, credentials == nullptr ? grpc::InsecureChannelCredentials() : credentials,
                                   arguments);
}

}  // namespace kvrelay::rpc
