#include "router/http/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/credentials.h"

namespace kvrelay::http {
namespace {

absl::StatusOr<std::shared_ptr<SSL_CTX>> NewContext(const rpc::TlsFiles& files) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  bool good = context != nullptr && SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1 &&
              SSL_CTX_use_certificate_chain_file(context.get(), files.cert.c_str()) == 1 &&
              SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_check_private_key(context.get()) == 1;
  if (good && !files.ca.empty()) {
    good = SSL_CTX_load_verify_locations(context.get(), files.ca.c_str(), nullptr) == 1;
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  if (good) {
    SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
    return context;
  }
  char cause[256] = "unknown cause";
  if (const unsigned long code = ERR_get_error()) ERR_error_string_n(code, cause, sizeof(cause));
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat("TLS for HTTP, ", files.cert, ", ", files.key, ": ", cause));
}

}  // namespace

TlsContext::TlsContext(const rpc::TlsFiles& files) : files_(files) {}

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Load(const rpc::TlsFiles& files) {
  std::unique_ptr<TlsContext> context(new TlsContext(files));
  std::vector<std::string> paths = {files.cert, files.key};
  if (!files.ca.empty()) paths.push_back(files.ca);
  // The first look comes before the first read: a change in between is seen.
  context->watch_ = std::make_unique<FileWatch>(std::move(paths), rpc::kTlsReloadInterval,
                                                [self = context.get()] { self->Reload(); });
  KV_ASSIGN_OR_RETURN(std::shared_ptr<SSL_CTX> loaded, NewContext(files));
  std::lock_guard lock(context->mutex_);
  if (context->current_ == nullptr) context->current_ = std::move(loaded);
  return context;
}

void TlsContext::Reload() {
  absl::StatusOr<std::shared_ptr<SSL_CTX>> loaded = NewContext(files_);
  if (!loaded.ok()) {  // what was good goes on
    observability::LogError("http_certificate_bad", {{"message", std::string(loaded.status().message())}});
    return;
  }
  std::lock_guard lock(mutex_);
  current_ = *std::move(loaded);
}

SslSession TlsContext::NewSession() const {
  std::lock_guard lock(mutex_);
  return SslSession(SSL_new(current_.get()));
}

}  // namespace kvrelay::http
