// Flags that all server programs share: TLS among our own processes, and where to listen without it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/flags.h"
#include "common/rpc/peer_role.h"
#include "common/rpc/tls_files.h"

namespace kvrelay::rpc {

struct TlsOptions {
  TlsFiles files;  // all or none
  std::string trust_domain = kDefaultTrustDomain;
  bool allow_plaintext = false;
  std::string health_listen;  // host:port of a second port; empty: none
};

void AddTlsFlags(Flags& flags, TlsOptions& options);

// INVALID_ARGUMENT: files that do not belong together, a trust domain that is no name, a bad health address.
absl::Status CheckTlsOptions(const TlsOptions& options);
// INVALID_ARGUMENT: `listen` is reachable from other machines, without TLS (`tls`), and nobody said that this is meant.
absl::Status CheckPlaintext(const std::string& listen, bool tls, const TlsOptions& options);

}  // namespace kvrelay::rpc
