#include "common/rpc/options_tls.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"
#include "common/rpc/options_flags.h"

namespace kvrelay::rpc {

void AddTlsFlags(Flags& flags, TlsOptions& options) {
  AddFlag(flags, "tls-cert", options.files.cert,
          "certificate chain in PEM, own certificate first; names this process's role (SECURITY.md)");
  AddFlag(flags, "tls-key", options.files.key, "its private key in PEM");
  AddFlag(flags, "tls-ca", options.files.ca,
          "CA certificates in PEM that other kvrelay processes' certificates end at");
  AddFlag(flags, "tls-trust-domain", options.trust_domain, "roles are the URI names spiffe://TRUST_DOMAIN/ROLE");
  AddSwitch(flags, "allow-plaintext", options.allow_plaintext,
            "listen without TLS on an address that other machines can reach");
  AddFlag(flags, "health-listen", options.health_listen,
          "host:port of a second port, without TLS, that serves grpc.health.v1 alone, for probes");
}

absl::Status CheckTlsOptions(const TlsOptions& options) {
  const TlsFiles& files = options.files;
  if (!files.none() && (files.cert.empty() || files.key.empty() || files.ca.empty())) {
    return absl::InvalidArgumentError("--tls-cert, --tls-key and --tls-ca belong together: give all or none");
  }
  const std::string& domain = options.trust_domain;
  const bool clean = std::all_of(domain.begin(), domain.end(), [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '.' || c == '-' || c == '_';
  });
  if (domain.empty() || domain.size() > 255 || !clean) {
    return absl::InvalidArgumentError(
        "--tls-trust-domain takes up to 255 of lower case letters, digits, dots, dashes and underscores");
  }
  if (!options.health_listen.empty()) KV_RETURN_IF_ERROR(ParseHostPort(options.health_listen).status());
  return absl::OkStatus();
}

absl::Status CheckPlaintext(const std::string& listen, bool tls, const TlsOptions& options) {
  KV_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(listen));
  if (tls || options.allow_plaintext || IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--listen ", listen,
                   " can be reached from other machines, and there is no TLS: give --tls-cert, --tls-key and "
                   "--tls-ca, or --allow-plaintext if whoever reaches the port may use it"));
}

}  // namespace kvrelay::rpc
