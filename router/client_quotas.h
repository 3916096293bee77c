// What one client may have in the router at a time: requests, and tokens (prompt + max_tokens of its generations).
//
// A ticket counts for its client from Enter until it is destroyed; the books hold clients with tickets only.
//
// Thread-safe; a ticket is used by one thread at a time, and must not outlive the quotas.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace kvrelay::router {

struct QuotaLimits {
  uint32_t max_requests = 0;  // 0: no limit but that of the router
  uint64_t max_tokens = 0;    // 0: no limit
};

class ClientQuotas;

class QuotaTicket {
 public:
  ~QuotaTicket();
  QuotaTicket(const QuotaTicket&) = delete;

  // Once, when the request's tokens are known. RESOURCE_EXHAUSTED with RetryInfo while the client's other requests
  // leave too little; INVALID_ARGUMENT if they never can.
  absl::Status TakeTokens(uint64_t tokens);

 private:
  friend class ClientQuotas;
  QuotaTicket(ClientQuotas* quotas, const std::string& client) : quotas_(*quotas), client_(client) {}

  ClientQuotas& quotas_;
  const std::string client_;
  uint64_t tokens_ = 0;
};

class ClientQuotas {
 public:
  explicit ClientQuotas(const QuotaLimits& limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED with RetryInfo if the client has max_requests already.
  absl::StatusOr<std::unique_ptr<QuotaTicket>> Enter(const std::string& client);

 private:
  friend class QuotaTicket;
  struct Use {
    uint32_t requests = 0;
    uint64_t tokens = 0;
  };

  absl::Status TakeTokens(const std::string& client, uint64_t tokens);
  void Leave(const std::string& client, uint64_t tokens);

  const QuotaLimits limits_;
  std::mutex mutex_;
  std::map<std::string, Use> clients_;
};

}  // namespace kvrelay::router
