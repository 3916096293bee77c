// What every service of a worker process shares. Filled at start; constant once calls are admitted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/engine/engine.h"
#include "common/rpc/credentials.h"
#include "common/worker/live_calls.h"
#include "common/worker/ticker.h"
#include "kvrelay/worker/v1/worker.pb.h"

namespace kvrelay::worker {

struct WorkerContext {
  const Clock* clock = nullptr;
  engine::Engine* engine = nullptr;
  LiveCalls* calls = nullptr;
  Ticker* ticker = nullptr;
  worker::v1::WorkerIdentity identity;
  std::string role;  // "prefill" or "decode"
  std::string kernel_id;
  std::string kv_address;  // where prefill workers reach the KvService; empty for a prefill worker
  int vocabulary = 0;
  std::vector<int32_t> eos_ids;         // the model's own end tokens
  const rpc::MutualTls* tls = nullptr;  // null: plaintext
};

}  // namespace kvrelay::worker
