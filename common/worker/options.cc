#include "common/worker/options.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "common/base/cpu_limit.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/host_port.h"
#include "common/rpc/options_flags.h"

namespace kvrelay::worker {
namespace {

using rpc::AddFlag;

// Values that are read as text and turned into more than text.
struct RawValues {
  std::string kv_type = "f16", matmul = "native", isa = "auto", log_format = "text", log_level = "info";
  int step_budget_ms = 200;
  int queue_timeout_ms = 30000;
  bool pin_threads = false;
};

void AddSharedFlags(Flags& flags, WorkerOptions& o, RawValues& raw) {
  AddFlag(flags, "model", o.model, "GGUF file, or folder with config.json, tokenizer.json and safetensors").Required();
  AddFlag(flags, "listen", o.listen, "address to listen on, host:port; port 0 takes a free one");
  AddFlag(flags, "instance", o.instance, "unique name of this process (default: ROLE-HOSTNAME-PID)");
  AddFlag(flags, "port-file", o.port_file, "file to write host:port to once the worker listens");
  AddFlag(flags, "threads", o.threads, "compute threads; 0: as many as the process may keep busy").Range(0, 1024);
  rpc::AddSwitch(flags, "pin-threads", raw.pin_threads, "keep each compute thread on one CPU");
  AddFlag(flags, "kv-pool-mib", o.kv_pool_mib, "memory for keys and values, in MiB").Range(1, 1 << 24);
  AddFlag(flags, "kv-type", raw.kv_type, "type of cached keys and values: f16, f32, bf16, int8");
  AddFlag(flags, "matmul", raw.matmul, "matrix multiplication: native, openblas");
  AddFlag(flags, "isa", raw.isa, "instruction set: auto, scalar, avx2, avx512, avx512vnni");
  AddFlag(flags, "context-length", o.context_length, "longest prompt + max_tokens; 0: the model's").Range(0, 1 << 24);
  AddFlag(flags, "prefill-chunk", o.prefill_chunk, "most prompt tokens of one request in one step").Range(1, 65536);
  AddFlag(flags, "step-budget-ms", raw.step_budget_ms, "aim for the duration of a step that mixes prompts and tokens")
      .Range(1, 60000);
  AddFlag(flags, "max-sessions", o.max_sessions, "most requests at a time; more are refused").Range(1, 65536);
  AddFlag(flags, "queue-tokens", o.queue_tokens, "most prompt tokens that a prefill worker takes in; more are refused")
      .Range(1, int64_t{1} << 40);
  AddFlag(flags, "kv-in-flight-bytes", o.kv_in_flight_bytes, "most KV bytes under way to other workers at a time")
      .Range(1, int64_t{1} << 40);
  AddFlag(flags, "queue-timeout-ms", raw.queue_timeout_ms, "longest wait of a prefill job before its first step")
      .Range(1, 3600000);
  rpc::AddMetricsFlags(flags, o.metrics);
  rpc::AddTlsFlags(flags, o.tls);
  AddFlag(flags, "log-format", raw.log_format, "text, json");
  AddFlag(flags, "log-level", raw.log_level, "debug, info, warning, error");
}

std::string DefaultInstance(const std::string& role) {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(role, "-", host, "-", getpid());
}

absl::Status Interpret(const RawValues& raw, const std::string& role, WorkerOptions& o) {
  KV_ASSIGN_OR_RETURN(o.kv_type, kv::ParseKvType(raw.kv_type));
  KV_ASSIGN_OR_RETURN(o.matmul, kernels::ParseMatmulBackend(raw.matmul));
  KV_ASSIGN_OR_RETURN(o.isa, kernels::ParseIsa(raw.isa));
  KV_ASSIGN_OR_RETURN(o.log_format, observability::ParseLogFormat(raw.log_format));
  KV_ASSIGN_OR_RETURN(o.log_level, observability::ParseLogLevel(raw.log_level));
  KV_RETURN_IF_ERROR(rpc::CheckTlsOptions(o.tls));
  KV_RETURN_IF_ERROR(rpc::CheckPlaintext(o.listen, !o.tls.files.none(), o.tls));
  if (!o.advertise.empty()) {
    KV_ASSIGN_OR_RETURN(const rpc::HostPort advertise, rpc::ParseHostPort(o.advertise));
    if (advertise.port == 0) return absl::InvalidArgumentError("--advertise needs the port that others can reach");
  }
  o.step_budget = absl::Milliseconds(raw.step_budget_ms);
  o.queue_timeout = absl::Milliseconds(raw.queue_timeout_ms);
  if (o.threads == 0) o.threads = UsableCpus();
  if (raw.pin_threads) o.cpus = AllowedCpus();
  if (raw.pin_threads && o.cpus.size() < static_cast<size_t>(o.threads)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--pin-threads with --threads=", o.threads, ": this process may use ", o.cpus.size(), " CPUs"));
  }
  if (o.instance.empty()) o.instance = DefaultInstance(role);
  const bool clean = std::all_of(o.instance.begin(), o.instance.end(), [](unsigned char c) { return std::isgraph(c); });
  if (o.instance.size() > 128 || !clean) {
    return absl::InvalidArgumentError("--instance takes up to 128 visible ASCII characters");
  }
  return absl::OkStatus();
}

}  // namespace

std::variant<WorkerOptions, int> ParseWorkerOptions(int argc, const char* const* argv, const std::string& role,
                                                    const AddFlags& add_flags) {
  constexpr int kBadValue = 2;
  WorkerOptions options;
  RawValues raw;
  Flags flags(absl::StrCat("A kvrelay ", role, " worker."), absl::StrCat("kvrelay-", role));
  flags.Version(Version());
  AddSharedFlags(flags, options, raw);
  if (add_flags) add_flags(flags, options);
  if (const std::optional<int> exit_code = flags.Parse(argc, argv, std::cout, std::cerr)) return *exit_code;
  if (const absl::Status status = Interpret(raw, role, options); !status.ok()) {
    std::cerr << "kvrelay-" << role << ": " << status.message() << "\n";
    return kBadValue;
  }
  return options;
}

}  // namespace kvrelay::worker
