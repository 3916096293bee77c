// TLS for servers and channels, from files that are read again while the process runs.
//
// gRPC looks at the files every kTlsReloadInterval. New connections use what it read last; those that exist stay as
// they are. Certificate and key must be replaced together, as one rename or swapped link (Kubernetes does so): while
// they do not fit, new connections fail. Each change is logged with its outcome.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_watch.h"
#include "common/rpc/peer_role.h"
#include "common/rpc/tls_files.h"

namespace kvrelay::rpc {

inline constexpr absl::Duration kTlsReloadInterval = absl::Seconds(2);

// The files of one identity. Must outlive what is made from it, for its log lines. Thread-safe.
class Certificates {
 public:
  // Checks and reads them; the errors of tls_files.h. REQUIRES: cert and key are given.
  static absl::StatusOr<std::unique_ptr<Certificates>> Load(const TlsFiles& files);

  const TlsFiles& files() const { return files_; }
  // As loaded at the start.
  const CertificateFacts& facts() const { return facts_; }
  const std::shared_ptr<grpc::experimental::CertificateProviderInterface>& provider() const { return provider_; }

 private:
  Certificates(const TlsFiles& files, CertificateFacts facts);

  const TlsFiles files_;
  const CertificateFacts facts_;
  const std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider_;
  FileWatch watch_;
};

// Among our own processes: both sides show a certificate, and each checks the other's role.
class MutualTls {
 public:
  // FAILED_PRECONDITION too if the certificate does not name `role`: all peers would refuse it. REQUIRES: all files.
  static absl::StatusOr<std::unique_ptr<MutualTls>> Load(const TlsFiles& files, const std::string& trust_domain,
                                                         PeerRole role);

  // For a worker: demands a client certificate, and refuses calls by the table of peer_role.h.
  std::shared_ptr<grpc::ServerCredentials> Server() const;
  // To a process of that role: its certificate must name the role. Host names do not matter.
  std::shared_ptr<grpc::ChannelCredentials> ChannelTo(PeerRole role) const;

 private:
  MutualTls(std::unique_ptr<Certificates> certificates, std::string trust_domain)
      : certificates_(std::move(certificates)), trust_domain_(std::move(trust_domain)) {}

  const std::unique_ptr<Certificates> certificates_;
  const std::string trust_domain_;
};

// For a public port: with a CA among the files, clients must show a certificate that it signed.
std::shared_ptr<grpc::ServerCredentials> PublicServerCredentials(const Certificates& certificates);

// For clients of a public port, read once: the server's certificate must end at `files.ca` and name the host of the
// address. Certificate and key are optional. The errors of tls_files.h.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(const TlsFiles& files);

}  // namespace kvrelay::rpc
