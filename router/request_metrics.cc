#include "router/request_metrics.h"

#include <algorithm>

#include "common/rpc/duration.h"

namespace kvrelay::router {
namespace {

using observability::Counter;
using observability::Metrics;

// Upper bounds in seconds: from what a short prompt takes to what nobody waits for.
const std::vector<double> kLong = {0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1, 2, 4, 8, 15, 30, 60, 120};
// The same of gaps and transfers.
const std::vector<double> kShort = {0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5};

constexpr int kLastCode = 16;

std::vector<Counter> FailureCounters(Metrics* metrics) {
  std::vector<Counter> counters;
  for (int code = 0; code <= kLastCode; ++code) {
    counters.push_back(metrics->AddCounter("kvrelay_request_failures_total", "Requests that did not end well, by code",
                                           {{"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}}));
  }
  return counters;
}

Counter Success(Metrics* metrics, const char* reason) {
  return metrics->AddCounter("kvrelay_request_success_total", "Requests that ended well, by why they ended",
                             {{"finished_reason", reason}});
}

Counter Positions(Metrics* metrics, const char* kind) {
  return metrics->AddCounter("kvrelay_positions_total",
                             "Positions of requests that ended well; recomputed is a part of computed",
                             {{"kind", kind}});
}

double Seconds(const google::protobuf::Duration& duration) { return absl::ToDoubleSeconds(rpc::FromProto(duration)); }

}  // namespace

RequestMetrics::RequestMetrics(Metrics* metrics)
    : failures_(FailureCounters(metrics)),
      stopped_(Success(metrics, "stop")),
      full_length_(Success(metrics, "length")),
      prompt_tokens_(metrics->AddCounter("kvrelay_prompt_tokens_total", "Tokens of prompts")),
      cached_tokens_(metrics->AddCounter("kvrelay_prompt_tokens_cached_total", "Of these, reused from a prefix cache")),
      generation_tokens_(metrics->AddCounter("kvrelay_generation_tokens_total", "Tokens handed to clients")),
      computed_(Positions(metrics, "computed")),
      reused_(Positions(metrics, "reused")),
      received_(Positions(metrics, "received")),
      recomputed_(Positions(metrics, "recomputed")),
      discarded_(Positions(metrics, "discarded")),
      drafted_(metrics->AddCounter("kvrelay_drafted_tokens_total", "Guessed tokens that were computed")),
      accepted_(metrics->AddCounter("kvrelay_drafted_tokens_accepted_total", "Of these, right ones")),
      retries_(metrics->AddCounter("kvrelay_prefill_retries_total", "Prompts computed again after a failed attempt")),
      replans_(metrics->AddCounter("kvrelay_replans_total", "Requests planned anew on another decode worker")),
      moves_(metrics->AddCounter("kvrelay_moves_total", "Live streams moved to another decode worker")),
      kv_bytes_(metrics->AddCounter("kvrelay_kv_transfer_bytes_total", "KV payload shipped between workers")),
      kv_hidden_seconds_(metrics->AddCounter("kvrelay_kv_transfer_hidden_seconds_total",
                                             "Transfer time while the prompt was still being computed; its share of "
                                             "kvrelay_kv_transfer_seconds_sum is what overlap saves")),
      kv_seconds_(metrics->AddHistogram("kvrelay_kv_transfer_seconds", "First KV frame until the receipt", kShort)),
      queue_seconds_(metrics->AddHistogram("kvrelay_request_queue_time_seconds",
                                           "Wait in the router and in the worker that computes the prompt", kLong)),
      prefill_seconds_(metrics->AddHistogram("kvrelay_request_prefill_time_seconds",
                                             "First step of a prompt until its first token", kLong)),
      first_token_seconds_(metrics->AddHistogram("kvrelay_time_to_first_token_seconds",
                                                 "Arrival until the first token is handed to the client", kLong)),
      token_gap_seconds_(metrics->AddHistogram("kvrelay_inter_token_latency_seconds", "Gaps between tokens", kShort)),
      seconds_(metrics->AddHistogram("kvrelay_e2e_request_latency_seconds", "Arrival until the request's end", kLong)) {
}

void RequestMetrics::Request::Sent(const v1::GenerateResponse& response, absl::Duration now) {
  if (response.has_finished()) return metrics_->Count(response.finished());
  if (!response.has_token()) return;
  metrics_->generation_tokens_.Add();
  if (last_token_) {
    metrics_->token_gap_seconds_.Observe(absl::ToDoubleSeconds(now - *last_token_));
  } else {
    metrics_->first_token_seconds_.Observe(absl::ToDoubleSeconds(now - arrival_));
  }
  last_token_ = now;
}

void RequestMetrics::Request::Ended(const absl::Status& status, absl::Duration now) {
  metrics_->seconds_.Observe(absl::ToDoubleSeconds(now - arrival_));
  if (!status.ok()) metrics_->failures_[static_cast<size_t>(std::clamp(status.raw_code(), 0, kLastCode))].Add();
}

void RequestMetrics::Count(const v1::Finished& finished) {
  (finished.reason() == v1::FINISH_REASON_LENGTH ? full_length_ : stopped_).Add();
  prompt_tokens_.Add(finished.usage().prompt());
  cached_tokens_.Add(finished.usage().cached());
  for (const v1::WorkerPositions& worker : finished.workers()) {
    computed_.Add(static_cast<double>(worker.positions().computed()));
    reused_.Add(worker.positions().reused());
    received_.Add(worker.positions().received());
    recomputed_.Add(static_cast<double>(worker.positions().recomputed()));
    discarded_.Add(static_cast<double>(worker.positions().discarded()));
  }
  drafted_.Add(finished.usage().drafted());
  accepted_.Add(finished.usage().accepted());
  retries_.Add(std::max(finished.attempts(), 1u) - 1);
  replans_.Add(finished.replans());
  moves_.Add(finished.moves());
  const v1::Timings& times = finished.timings();
  queue_seconds_.Observe(Seconds(times.router_queue()) + Seconds(times.prefill_queue()));
  prefill_seconds_.Observe(Seconds(times.prefill()));
  if (finished.kv_bytes_shipped() == 0) return;
  kv_bytes_.Add(static_cast<double>(finished.kv_bytes_shipped()));
  kv_seconds_.Observe(Seconds(times.transfer()));
  kv_hidden_seconds_.Add(Seconds(times.transfer_hidden()));
}

}  // namespace kvrelay::router
