// What the router tells Prometheus about requests, each counted once, when it ends or when its tokens leave. Sums over
// requests of what Finished tells each client: nothing is measured a second time.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/observability/metrics.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::router {

// Thread-safe.
class RequestMetrics {
 public:
  // `metrics` must outlive this object.
  explicit RequestMetrics(observability::Metrics* metrics);

  // One request. Not thread-safe.
  class Request {
   public:
    Request(RequestMetrics* metrics, absl::Duration arrival) : metrics_(metrics), arrival_(arrival) {}
    // An event goes to the client.
    void Sent(const v1::GenerateResponse& response, absl::Duration now);
    // REQUIRES: called once.
    void Ended(const absl::Status& status, absl::Duration now);

   private:
    RequestMetrics* const metrics_;
    const absl::Duration arrival_;
    std::optional<absl::Duration> last_token_;
  };

 private:
  void Count(const v1::Finished& finished);

  // By gRPC code, 0 to 16; that of OK is not used.
  std::vector<observability::Counter> failures_;
  observability::Counter stopped_, full_length_;
  observability::Counter prompt_tokens_, cached_tokens_, generation_tokens_;
  observability::Counter computed_, reused_, received_, recomputed_, discarded_, drafted_, accepted_;
  observability::Counter retries_, replans_, moves_;
  observability::Counter kv_bytes_, kv_hidden_seconds_;
  observability::Histogram kv_seconds_, queue_seconds_, prefill_seconds_;
  observability::Histogram first_token_seconds_, token_gap_seconds_, seconds_;
};

}  // namespace kvrelay::router
