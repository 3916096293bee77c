// What every service of a worker process shares. Filled at start; constant once calls are admitted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/task_runner.h"
#include "common/engine/engine.h"
#include "common/kv_wire/send_budget.h"
#include "common/rpc/credentials.h"
#include "common/worker/grammars.h"
#include "common/worker/live_calls.h"
#include "common/worker/ticker.h"
#include "common/worker/token_budget.h"
#include "kvrelay/worker/v1/worker.pb.h"

namespace kvrelay::worker {

struct WorkerContext {
  const Clock* clock = nullptr;
  engine::Engine* engine = nullptr;
  LiveCalls* calls = nullptr;
  TickSource* ticker = nullptr;
  TokenBudget* prompt_tokens = nullptr;                     // of jobs that a prefill worker has taken
  absl::Duration queue_timeout = absl::InfiniteDuration();  // longest wait of a job before its first step
  TaskRunner* tasks = nullptr;                              // copies KV into frames
  kv_wire::SendBudget* kv_in_flight = nullptr;              // of all handoffs of this process
  worker::v1::WorkerIdentity identity;
  std::string role;  // "prefill" or "decode"
  std::string kernel_id;
  std::string kv_address;  // where senders reach the KvService; empty for a prefill worker
  int vocabulary = 0;
  std::vector<int32_t> eos_ids;         // the model's own end tokens
  GrammarCache* grammars = nullptr;     // null in tests that need none
  const rpc::MutualTls* tls = nullptr;  // null: plaintext
};

}  // namespace kvrelay::worker
