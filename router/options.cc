#include "router/options.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/host_port.h"
#include "common/rpc/options_flags.h"

namespace kvrelay::router {
namespace {

using rpc::AddFlag;

// Values that are read as text and turned into more than text.
struct RawValues {
  std::vector<std::string> prefill, decode;
  std::string log_format = "text", log_level = "info";
  int queue_timeout_ms = 30000;
};

void AddSecurityFlags(Flags& flags, RouterOptions& o) {
  rpc::AddTlsFlags(flags, o.tls);
  AddFlag(flags, "public-tls-cert", o.public_files.cert, "certificate chain to show to clients (default: --tls-cert)");
  AddFlag(flags, "public-tls-key", o.public_files.key, "its private key (default: --tls-key)");
  AddFlag(flags, "client-ca", o.public_files.ca,
          "CA certificates in PEM; clients must show a certificate signed by one of them");
  AddFlag(flags, "client-tokens", o.client_tokens,
          "file of lines NAME TOKEN; clients must send one of the tokens (authorization: Bearer TOKEN)");
  AddFlag(flags, "client-max-requests", o.quotas.max_requests, "most requests of one client at a time; 0: no limit")
      .Range(0, 65536);
  AddFlag(flags, "client-max-tokens", o.quotas.max_tokens,
          "most tokens (prompts + max_tokens) of one client at a time; 0: no limit")
      .Range(0, int64_t{1} << 40);
}

void AddHttpFlags(Flags& flags, RouterOptions& o) {
  AddFlag(flags, "http-listen", o.http_listen,
          "address to serve the page and OpenAI's HTTP API on, host:port; port 0 takes a free one (default: none)");
  AddFlag(flags, "http-port-file", o.http_port_file, "file to write host:port to once HTTP is served");
  AddFlag(flags, "http-max-requests", o.http_max_requests,
          "most POST requests over HTTP at a time, open streams among them; more are answered 503")
      .Range(1, 4096);
  AddFlag(flags, "http-cors-origin", o.http_cors_origin,
          "origin whose pages may use the HTTP API from a browser, or * for all (default: none)");
}

void AddFlags(Flags& flags, RouterOptions& o, RawValues& raw) {
  AddFlag(flags, "model", o.model, "GGUF file or model folder, read for its vocabulary and facts only").Required();
  AddFlag(flags, "model-name", o.model_name, "name of the model in requests (default: from the model file)");
  AddFlag(flags, "listen", o.listen, "address to listen on, host:port; port 0 takes a free one");
  AddFlag(flags, "instance", o.instance, "unique name of this process (default: router-HOSTNAME-PID)");
  AddFlag(flags, "port-file", o.port_file, "file to write host:port to once the router listens");
  const std::string address = "host:port, or dns:///host:port for all addresses of a name; several with commas";
  AddFlag(flags, "prefill", raw.prefill, absl::StrCat("prefill workers: ", address)).List();
  AddFlag(flags, "decode", raw.decode, absl::StrCat("decode workers: ", address)).List();
  AddFlag(flags, "max-active", o.max_active, "most requests at a time; more are refused").Range(1, 65536);
  AddFlag(flags, "queue-requests", o.queue.requests, "most requests that wait for room on a worker").Range(0, 65536);
  AddFlag(flags, "queue-tokens", o.queue.tokens, "most tokens, prompt + max_tokens, of the requests that wait")
      .Range(0, int64_t{1} << 40);
  AddFlag(flags, "queue-timeout-ms", raw.queue_timeout_ms, "longest wait for room on a worker").Range(1, 3600000);
  AddHttpFlags(flags, o);
  rpc::AddMetricsFlags(flags, o.metrics);
  AddSecurityFlags(flags, o);
  AddFlag(flags, "log-format", raw.log_format, "text, json");
  AddFlag(flags, "log-level", raw.log_level, "debug, info, warning, error");
}

absl::Status AddWorkers(v1::WorkerRole role, const std::vector<std::string>& addresses, RouterOptions& o) {
  for (const std::string& address : addresses) {
    if (address.empty()) continue;  // an empty environment variable, or a comma too many
    KV_ASSIGN_OR_RETURN(WorkerTarget target, ParseTarget(role, address));
    o.workers.push_back(std::move(target));
  }
  return absl::OkStatus();
}

std::string DefaultInstance() {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat("router-", host, "-", getpid());
}

absl::Status InterpretTls(RouterOptions& o) {
  KV_RETURN_IF_ERROR(rpc::CheckTlsOptions(o.tls));
  if (o.public_files.cert.empty() != o.public_files.key.empty()) {
    return absl::InvalidArgumentError("--public-tls-cert and --public-tls-key belong together");
  }
  if (o.public_files.cert.empty()) {
    o.public_files.cert = o.tls.files.cert;
    o.public_files.key = o.tls.files.key;
  }
  const bool tls = !o.public_files.cert.empty();
  if (!tls && !o.public_files.ca.empty()) {
    return absl::InvalidArgumentError("--client-ca needs TLS: give --public-tls-cert and --public-tls-key too");
  }
  return rpc::CheckPlaintext(o.listen, tls, o.tls);
}

absl::Status InterpretHttp(const RouterOptions& o) {
  if (o.http_listen.empty()) return absl::OkStatus();
  KV_ASSIGN_OR_RETURN(const rpc::HostPort address, rpc::ParseHostPort(o.http_listen));
  if (o.tls.allow_plaintext || !o.public_files.cert.empty() || rpc::IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--http-listen ", o.http_listen,
                   " can be reached from other machines, and there is no TLS: give --public-tls-cert and "
                   "--public-tls-key, or --allow-plaintext if whoever reaches the port may use it"));
}

absl::Status Interpret(const RawValues& raw, RouterOptions& o) {
  KV_RETURN_IF_ERROR(AddWorkers(v1::WORKER_ROLE_PREFILL, raw.prefill, o));
  KV_RETURN_IF_ERROR(AddWorkers(v1::WORKER_ROLE_DECODE, raw.decode, o));
  if (o.workers.empty()) return absl::InvalidArgumentError("no worker is given; use --prefill and --decode");
  o.queue_timeout = absl::Milliseconds(raw.queue_timeout_ms);
  KV_ASSIGN_OR_RETURN(o.log_format, observability::ParseLogFormat(raw.log_format));
  KV_ASSIGN_OR_RETURN(o.log_level, observability::ParseLogLevel(raw.log_level));
  KV_RETURN_IF_ERROR(InterpretTls(o));
  KV_RETURN_IF_ERROR(InterpretHttp(o));
  if (o.instance.empty()) o.instance = DefaultInstance();
  const bool clean = std::all_of(o.instance.begin(), o.instance.end(), [](unsigned char c) { return std::isgraph(c); });
  if (o.instance.size() > 128 || !clean) {
    return absl::InvalidArgumentError("--instance takes up to 128 visible ASCII characters");
  }
  return absl::OkStatus();
}

}  // namespace

std::variant<RouterOptions, int> ParseOptions(int argc, const char* const* argv) {
  constexpr int kBadValue = 2;
  RouterOptions options;
  RawValues raw;
  Flags flags("The kvrelay router: the public service.", "kvrelay-router");
  flags.Version(Version());
  AddFlags(flags, options, raw);
  if (const std::optional<int> exit_code = flags.Parse(argc, argv, std::cout, std::cerr)) return *exit_code;
  if (const absl::Status status = Interpret(raw, options); !status.ok()) {
    std::cerr << "kvrelay-router: " << status.message() << "\n";
    return kBadValue;
  }
  return options;
}

}  // namespace kvrelay::router
