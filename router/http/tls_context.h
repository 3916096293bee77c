// TLS for HTTP with the files of the gRPC port, which are read again when they change: new connections use what is new.
//
// Thread-safe.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "common/base/file_watch.h"
#include "common/rpc/tls_files.h"
#include "router/http/transport.h"

namespace kvrelay::http {

class TlsContext {
 public:
  // With a CA among the files, clients must show a certificate that it signed. FAILED_PRECONDITION if the files do not
  // fit together.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Load(const rpc::TlsFiles& files);

  // For a new connection.
  SslSession NewSession() const;

 private:
  explicit TlsContext(const rpc::TlsFiles& files);
  void Reload();

  const rpc::TlsFiles files_;
  mutable std::mutex mutex_;
  std::shared_ptr<SSL_CTX> current_;
  std::unique_ptr<FileWatch> watch_;  // last: it uses what is above
};

}  // namespace kvrelay::http
