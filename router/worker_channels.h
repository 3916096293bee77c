// One gRPC channel per worker (role and address), shared by its status stream and the calls on it.
//
// Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::router {

class WorkerChannels {
 public:
  // Null: plaintext. With TLS a worker must show the certificate of the role it is configured for.
  explicit WorkerChannels(const rpc::MutualTls* tls = nullptr) : tls_(tls) {}

  std::shared_ptr<grpc::Channel> Get(v1::WorkerRole role, const std::string& address) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<grpc::Channel>& channel = channels_[{role, address}];
    if (channel == nullptr) channel = rpc::NewChannel(address, Credentials(role));
    return channel;
  }
  // The address is no longer a worker. Calls that run keep their channel.
  void Forget(v1::WorkerRole role, const std::string& address) {
    std::lock_guard lock(mutex_);
    channels_.erase({role, address});
  }

 private:
  std::shared_ptr<grpc::ChannelCredentials> Credentials(v1::WorkerRole role) const {
    if (tls_ == nullptr) return nullptr;
    return tls_->ChannelTo(role == v1::WORKER_ROLE_PREFILL ? rpc::PeerRole::kPrefill : rpc::PeerRole::kDecode);
  }

  const rpc::MutualTls* const tls_;
  std::mutex mutex_;
  std::map<std::pair<v1::WorkerRole, std::string>, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace kvrelay::router
