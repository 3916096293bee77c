// Certificates and keys in PEM files, checked before gRPC reads them: of a bad file gRPC tells no more than that
// handshakes fail.
//
// Reads files; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvrelay::rpc {

// Larger files are refused.
inline constexpr int64_t kTlsFileBytesMax = 1 << 20;

// Paths; empty: none.
struct TlsFiles {
  std::string cert = {};  // certificate chain, the own certificate first
  std::string key = {};   // its private key, without a passphrase
  std::string ca = {};    // certificates at which the chains of peers must end

  bool none() const { return cert.empty() && key.empty() && ca.empty(); }
};

// What an own certificate says.
struct CertificateFacts {
  std::string subject;
  std::string not_after;          // end of its validity, as text
  std::vector<std::string> uris;  // URI subject alternative names
};

// FAILED_PRECONDITION naming the file and what is wrong with it: it cannot be read, holds no certificate or key in PEM,
// a key with a passphrase, a certificate that is not valid now, or a key that is not the certificate's.
absl::StatusOr<CertificateFacts> CheckCertificate(const std::string& cert_path, const std::string& key_path);
// The same for a bundle: at least one certificate, and nothing that cannot be parsed.
absl::Status CheckCaBundle(const std::string& ca_path);

// The content of a file of up to `bytes_max` bytes. FAILED_PRECONDITION naming `what` it is, the path and the cause.
absl::StatusOr<std::string> ReadSmallFile(const std::string& what, const std::string& path, int64_t bytes_max);

}  // namespace kvrelay::rpc
