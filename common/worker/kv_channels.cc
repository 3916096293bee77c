#include "common/worker/kv_channels.h"

#include "common/rpc/channel.h"

namespace kvrelay::worker {

KvChannels::KvChannels(const rpc::MutualTls* tls)
    : credentials_(tls == nullptr ? nullptr : tls->ChannelTo(rpc::PeerRole::kDecode)) {}

std::shared_ptr<grpc::Channel> KvChannels::Get(const std::string& address) {
  std::lock_guard lock(mutex_);
  // Decode workers come and go; addresses that nobody sends to make room.
  if (channels_.size() > kMaxIdle && !channels_.contains(address)) {
    std::erase_if(channels_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  std::shared_ptr<grpc::Channel>& channel = channels_[address];
  if (channel == nullptr) channel = rpc::NewChannel(address, credentials_);
  return channel;
}

}  // namespace kvrelay::worker
