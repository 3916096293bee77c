#include "common/worker/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
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

void AddSharedFlags(CLI::App& app, WorkerOptions& o, RawValues& raw) {
  AddFlag(app, "model", o.model, "GGUF model file")->required();
  AddFlag(app, "listen", o.listen, "address to listen on, host:port; port 0 takes a free one");
  AddFlag(app, "instance", o.instance, "unique name of this process (default: ROLE-HOSTNAME-PID)");
  AddFlag(app, "port-file", o.port_file, "file to write host:port to once the worker listens");
  AddFlag(app, "threads", o.threads, "compute threads; 0: as many as the process may keep busy")
      ->check(CLI::Range(0, 1024));
  rpc::AddSwitch(app, "pin-threads", raw.pin_threads, "keep each compute thread on one CPU");
  AddFlag(app, "kv-pool-mib", o.kv_pool_mib, "memory for keys and values, in MiB")->check(CLI::Range(1, 1 << 24));
  AddFlag(app, "kv-type", raw.kv_type, "type of cached keys and values: f16, f32, bf16, int8");
  AddFlag(app, "matmul", raw.matmul, "matrix multiplication: native, openblas");
  AddFlag(app, "isa", raw.isa, "instruction set: auto, scalar, avx2, avx512, avx512vnni");
  AddFlag(app, "context-length", o.context_length, "longest prompt + max_tokens; 0: the model's")
      ->check(CLI::Range(0, 1 << 24));
  AddFlag(app, "prefill-chunk", o.prefill_chunk, "most prompt tokens of one request in one step")
      ->check(CLI::Range(1, 65536));
  AddFlag(app, "step-budget-ms", raw.step_budget_ms, "aim for the duration of a step that mixes prompts and tokens")
      ->check(CLI::Range(1, 60000));
  AddFlag(app, "max-sessions", o.max_sessions, "most requests at a time; more are refused")
      ->check(CLI::Range(1, 65536));
  AddFlag(app, "queue-tokens", o.queue_tokens, "most prompt tokens that a prefill worker takes in; more are refused")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  AddFlag(app, "kv-in-flight-bytes", o.kv_in_flight_bytes, "most KV bytes under way to other workers at a time")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  AddFlag(app, "queue-timeout-ms", raw.queue_timeout_ms, "longest wait of a prefill job before its first step")
      ->check(CLI::Range(1, 3600000));
  rpc::AddTlsFlags(app, o.tls);
  AddFlag(app, "log-format", raw.log_format, "text, json");
  AddFlag(app, "log-level", raw.log_level, "debug, info, warning, error");
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
  CLI::App app(absl::StrCat("A kvrelay ", role, " worker."), absl::StrCat("kvrelay-", role));
  app.set_version_flag("--version", Version());
  AddSharedFlags(app, options, raw);
  if (add_flags) add_flags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadValue;
  }
  if (const absl::Status status = Interpret(raw, role, options); !status.ok()) {
    std::cerr << "kvrelay-" << role << ": " << status.message() << "\n";
    return kBadValue;
  }
  return options;
}

}  // namespace kvrelay::worker
