// One gRPC channel per worker address, shared by its status stream and the calls on it.
//
// Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/rpc/channel.h"

namespace kvrelay::router {

class WorkerChannels {
 public:
  std::shared_ptr<grpc::Channel> Get(const std::string& address) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<grpc::Channel>& channel = channels_[address];
    if (channel == nullptr) channel = rpc::NewChannel(address);
    return channel;
  }
  // The address is no longer a worker. Calls that run keep their channel.
  void Forget(const std::string& address) {
    std::lock_guard lock(mutex_);
    channels_.erase(address);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace kvrelay::router
