// Flags that prefill and decode workers share. Each has an environment name: KVRELAY_ and the flag in capitals with
// underscores, for example KVRELAY_KV_POOL_MIB; a flag wins over the environment.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/base/flags.h"
#include "common/kernels/isa.h"
#include "common/kernels/matmul.h"
#include "common/kv/layout.h"
#include "common/kv_wire/send_budget.h"
#include "common/observability/log.h"
#include "common/rpc/options_metrics.h"
#include "common/rpc/options_tls.h"

namespace kvrelay::worker {

struct WorkerOptions {
  std::string model;
  std::string listen = "127.0.0.1:0";
  std::string advertise;  // empty: the bound address
  std::string instance;   // after parsing never empty
  std::string port_file;  // empty: none
  int threads = 0;        // after parsing at least 1
  std::vector<int> cpus;  // where the threads stay; empty: anywhere
  int kv_pool_mib = 512;
  int context_length = 0;  // 0: the model's
  int prefill_chunk = 512;
  absl::Duration step_budget = absl::Milliseconds(200);
  int draft_tokens = 7;  // of a decode worker; see engine::EngineOptions
  int max_sessions = 256;
  uint64_t kv_in_flight_bytes = kv_wire::SendBudget::kDefaultBytes;
  uint64_t queue_tokens = 1 << 16;                   // prompts of a prefill worker, beyond them it refuses
  absl::Duration queue_timeout = absl::Seconds(30);  // of its jobs
  rpc::MetricsOptions metrics;
  rpc::TlsOptions tls;
  kv::KvType kv_type = kv::KvType::kF16;
  kernels::MatmulBackend matmul = kernels::MatmulBackend::kNative;
  kernels::Isa isa = kernels::Isa::kScalar;  // after parsing the best, unless one was named
  observability::LogFormat log_format = observability::LogFormat::kText;
  observability::LogLevel log_level = observability::LogLevel::kInfo;
};

// Adds flags that one role alone has.
using AddFlags = std::function<void(Flags&, WorkerOptions&)>;

// The options, or the exit code if the program is done: 0 after --help or --version, 2 for a bad value, whose message
// is on standard error. `role` is "prefill" or "decode".
std::variant<WorkerOptions, int> ParseWorkerOptions(int argc, const char* const* argv, const std::string& role,
                                                    const AddFlags& add_flags = nullptr);

}  // namespace kvrelay::worker
