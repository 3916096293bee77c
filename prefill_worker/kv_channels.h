// The KV connections of a prefill worker: one per decode worker, shared by the transfers to it and by nothing else.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace kvrelay::prefill_worker {

// Thread-safe.
class KvChannels {
 public:
  // Connections kept while nobody uses them.
  static constexpr size_t kMaxIdle = 64;

  // `credentials` for all of them; null: plaintext.
  explicit KvChannels(std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr)
      : credentials_(std::move(credentials)) {}

  std::shared_ptr<grpc::Channel> Get(const std::string& address);

 private:
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace kvrelay::prefill_worker
