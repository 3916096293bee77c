#include "router/client_quotas.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_mapping.h"

namespace kvrelay::router {
namespace {

// A request of the same client must end first; they take about this long.
constexpr absl::Duration kQuotaRetryDelay = absl::Seconds(1);

absl::Status Exceeded(const std::string& client, const std::string& what) {
  return rpc::WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat("the quota of client ", client, " is used up: ", what)),
      kQuotaRetryDelay);
}

}  // namespace

QuotaTicket::~QuotaTicket() { quotas_.Leave(client_, tokens_); }

absl::Status QuotaTicket::TakeTokens(uint64_t tokens) {
  KV_CHECK(tokens_ == 0, "tokens are taken once");
  KV_RETURN_IF_ERROR(quotas_.TakeTokens(client_, tokens));
  tokens_ = tokens;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<QuotaTicket>> ClientQuotas::Enter(const std::string& client) {
  std::lock_guard lock(mutex_);
  const auto found = clients_.find(client);
  const uint32_t requests = found == clients_.end() ? 0 : found->second.requests;
  if (limits_.max_requests > 0 && requests >= limits_.max_requests) {
    return Exceeded(client, absl::StrCat("it has ", requests, " requests at a time, the most it may have"));
  }
  ++clients_[client].requests;
  return std::unique_ptr<QuotaTicket>(new QuotaTicket(this, client));
}

absl::Status ClientQuotas::TakeTokens(const std::string& client, uint64_t tokens) {
  if (limits_.max_tokens > 0 && tokens > limits_.max_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("prompt and max_tokens are ", tokens, " tokens; a client may have ",
                                                   limits_.max_tokens, " at a time"));
  }
  std::lock_guard lock(mutex_);
  Use& use = clients_.at(client);
  if (limits_.max_tokens > 0 && use.tokens > limits_.max_tokens - tokens) {
    return Exceeded(client, absl::StrCat("it has ", use.tokens, " of at most ", limits_.max_tokens,
                                         " tokens at a time, and this request needs ", tokens));
  }
  use.tokens += tokens;
  return absl::OkStatus();
}

void ClientQuotas::Leave(const std::string& client, uint64_t tokens) {
  std::lock_guard lock(mutex_);
  const auto found = clients_.find(client);
  KV_CHECK(found != clients_.end() && found->second.tokens >= tokens, "a ticket is in the books until it leaves");
  found->second.tokens -= tokens;
  if (--found->second.requests == 0) clients_.erase(found);
}

}  // namespace kvrelay::router
