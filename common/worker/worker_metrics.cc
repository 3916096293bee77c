#include "common/worker/worker_metrics.h"

#include <algorithm>

namespace kvrelay::worker {

void AddWorkerMetrics(const WorkerContext* context, observability::Metrics* metrics) {
  const engine::Engine* engine = context->engine;
  const auto load = [engine](auto value) {
    return [engine, value] { return static_cast<double>(value(engine->Load())); };
  };
  using Load = engine::EngineLoad;
  metrics->AddGauge(
      "kvrelay_engine_sessions_running", "Sessions in the engine that have had their first step, or hold room",
      load([](const Load& l) { return l.active_sessions - std::min(l.queued_sessions, l.active_sessions); }));
  metrics->AddGauge("kvrelay_engine_sessions_waiting", "Sessions that wait for their first step",
                    load([](const Load& l) { return l.queued_sessions; }));
  metrics->AddGauge("kvrelay_pending_prompt_tokens", "Prompt tokens that are not computed yet",
                    load([](const Load& l) { return l.pending_prompt_tokens; }));
  metrics->AddGauge("kvrelay_kv_cache_usage_ratio", "Share of KV blocks that some request refers to",
                    load([](const Load& l) { return 1.0 * l.kv_blocks_referenced / std::max(l.kv_blocks_total, 1u); }));
  metrics->AddGauge("kvrelay_kv_blocks", "KV blocks of 64 positions in the pool",
                    load([](const Load& l) { return l.kv_blocks_total; }));
  metrics->AddGauge("kvrelay_kv_blocks_cached", "KV blocks of finished requests that are kept for others",
                    load([](const Load& l) { return l.kv_blocks_cached; }));
  metrics->AddGauge("kvrelay_prefill_tokens_per_second", "Prompt tokens of recent steps; 0 before the first",
                    load([](const Load& l) { return l.prompt_tokens_per_second; }));
  metrics->AddReadCounter("kvrelay_prefix_cache_queries_total", "Tokens for which the prefix cache was asked",
                          load([](const Load& l) { return l.prefix_cache_queries; }));
  metrics->AddReadCounter("kvrelay_prefix_cache_hits_total", "Of these, tokens whose KV was found there",
                          load([](const Load& l) { return l.prefix_cache_hits; }));
  metrics->AddReadCounter("kvrelay_engine_steps_total", "Steps of the compute loop",
                          load([](const Load& l) { return l.steps; }));
}

}  // namespace kvrelay::worker
