#include "common/worker/status_report.h"

namespace kvrelay::worker {

v1::WatchStatusResponse StatusOf(const WorkerContext& context) {
  v1::WatchStatusResponse status;
  *status.mutable_identity() = context.identity;
  status.set_role(context.role);
  status.set_context_length(context.engine->context_length());
  status.set_kernel_id(context.kernel_id);
  status.set_draining(context.calls->draining());
  status.set_kv_address(context.kv_address);
  const engine::EngineLoad load = context.engine->Load();
  v1::Load& out = *status.mutable_load();
  out.set_beat(load.beat);
  out.set_steps(load.steps);
  out.set_kv_blocks_total(load.kv_blocks_total);
  out.set_kv_blocks_referenced(load.kv_blocks_referenced);
  out.set_kv_blocks_cached(load.kv_blocks_cached);
  out.set_active_sessions(load.active_sessions);
  out.set_queued_sessions(load.queued_sessions);
  out.set_pending_prompt_tokens(load.pending_prompt_tokens);
  out.set_prompt_tokens_per_second(load.prompt_tokens_per_second);
  out.set_prefix_cache_queries(load.prefix_cache_queries);
  out.set_prefix_cache_hits(load.prefix_cache_hits);
  return status;
}

}  // namespace kvrelay::worker
