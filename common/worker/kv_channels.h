// The KV connections of a sender: one per decode worker, shared by the transfers to it and by nothing else.
#pragma once

#include <grpcpp/channel.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/rpc/credentials.h"

namespace kvrelay::worker {

// Thread-safe.
class KvChannels {
 public:
  // Connections kept while nobody uses them.
  static constexpr size_t kMaxIdle = 64;

  // With TLS a receiver must show the certificate of a decode worker; null: plaintext.
  explicit KvChannels(const rpc::MutualTls* tls = nullptr);

  std::shared_ptr<grpc::Channel> Get(const std::string& address);

 private:
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace kvrelay::worker
