// The HTTP face of a router: OpenAI's completions and chat completions, models, tokenize and detokenize (as vLLM has
// them), health, and the page with the API that it uses (native_handler.h), as a plain client of the router's own
// GenerationService. So tokens of clients, quotas, limits, queueing and draining are those of gRPC.
//
//   GET  /                       the page (router/web); needs no token, it asks for one if the service does
//   GET  /health                 200, or 503 while the router drains; needs no token
//   GET  /v1/models, /v1/models/NAME
//   POST /v1/completions, /v1/chat/completions
//   POST /tokenize, /detokenize
//   POST /kvrelay/v1/generate, GET /kvrelay/v1/model, /kvrelay/v1/status
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/tls_files.h"
#include "router/http/connection_times.h"

namespace kvrelay::http {

struct GatewayOptions {
  std::string listen = {};       // host:port; port 0: a free one
  uint32_t posts_max = 256;      // requests by POST at a time, streams above all; more are answered 503
  rpc::TlsFiles tls = {};        // no certificate: plaintext; with a CA, clients must show a certificate that it signed
  std::string cors_origin = {};  // whose pages may use it from a browser: an origin, or *; empty: none
  std::string model_name = {};   // as answers give it
  std::string fingerprint = {};  // of the model file
  uint32_t context_length = 0;   // in tokens
  ConnectionTimes times = {};
};

// Thread-safe.
class Gateway {
 public:
  // Listens and serves. `channel` leads to the service, within this process. INVALID_ARGUMENT for a malformed address,
  // FAILED_PRECONDITION for bad files of TLS, UNAVAILABLE if it cannot be bound.
  static absl::StatusOr<std::unique_ptr<Gateway>> Start(const GatewayOptions& options,
                                                        std::shared_ptr<grpc::Channel> channel);
  // Ends all connections. Those whose calls still run end with them: let the service end its calls first.
  virtual ~Gateway() = default;

  // host:port as bound.
  virtual const std::string& address() const = 0;
  // Health says 503 from now on, and every connection ends with the answer it is getting. Returns when no POST is being
  // served, or after `grace`. gRPC's in-process channel ends at once with its server: shut that down after this.
  virtual void Drain(absl::Duration grace) = 0;
};

}  // namespace kvrelay::http
