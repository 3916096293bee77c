// Links for KV over gRPC: ReceiveKv calls that end with the call on whose behalf they are made.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "common/kv_wire/kv_link.h"
#include "common/worker/kv_channels.h"

namespace kvrelay::worker {

class GrpcKvTransport final : public kv_wire::KvTransport {
 public:
  // `parent`: its deadline and cancellation are those of every call. Both must outlive each Open.
  GrpcKvTransport(KvChannels* channels, const grpc::CallbackServerContext* parent)
      : channels_(channels), parent_(parent) {}

  std::shared_ptr<kv_wire::KvLink> Open(const std::string& address,
                                        std::shared_ptr<kv_wire::KvLinkListener> listener) override;

 private:
  KvChannels* const channels_;
  const grpc::CallbackServerContext* const parent_;
};

}  // namespace kvrelay::worker
