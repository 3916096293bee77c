#include "common/rpc/credentials.h"

#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/status_mapping.h"

namespace kvrelay::rpc {
namespace {

namespace tls = grpc::experimental;

absl::StatusOr<CertificateFacts> Check(const TlsFiles& files) {
  if (!files.ca.empty()) KV_RETURN_IF_ERROR(CheckCaBundle(files.ca));
  return CheckCertificate(files.cert, files.key);
}

void LogCertificate(std::string_view event, const TlsFiles& files, const CertificateFacts& facts) {
  observability::LogInfo(event, {{"file", files.cert},
                                 {"subject", facts.subject},
                                 {"uris", absl::StrJoin(facts.uris, ",")},
                                 {"not_after", facts.not_after}});
}

void LogReload(const TlsFiles& files) {
  const absl::StatusOr<CertificateFacts> facts = Check(files);
  if (facts.ok()) {
    LogCertificate("certificate_reloaded", files, *facts);
  } else {
    observability::LogError("certificate_bad", {{"message", std::string(facts.status().message())}});
  }
}

// Lets a server pass whose certificate names the role.
class RoleVerifier final : public tls::ExternalCertificateVerifier {
 public:
  RoleVerifier(std::string trust_domain, PeerRole role) : trust_domain_(std::move(trust_domain)), role_(role) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    std::vector<std::string> uris;
    for (const grpc::string_ref& uri : request->uri_names()) uris.emplace_back(uri.data(), uri.size());
    *sync_status = ToGrpc(Judge(uris));
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  absl::Status Judge(const std::vector<std::string>& uris) const {
    KV_ASSIGN_OR_RETURN(const PeerRole role, RoleOf(uris, trust_domain_));
    if (role == role_) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat("the server's certificate is that of a ", RoleName(role), ", not a ", RoleName(role_)));
  }

  const std::string trust_domain_;
  const PeerRole role_;
};

}  // namespace

Certificates::Certificates(const TlsFiles& files, CertificateFacts facts)
    : files_(files),
      facts_(std::move(facts)),
      provider_(std::make_shared<tls::FileWatcherCertificateProvider>(
          files.key, files.cert, files.ca, static_cast<unsigned>(absl::ToInt64Seconds(kTlsReloadInterval)))),
      watch_(files.ca.empty() ? std::vector<std::string>{files.cert, files.key}
                              : std::vector<std::string>{files.cert, files.key, files.ca},
             kTlsReloadInterval, [this] { LogReload(files_); }) {}

absl::StatusOr<std::unique_ptr<Certificates>> Certificates::Load(const TlsFiles& files) {
  RouteGrpcLog();
  KV_ASSIGN_OR_RETURN(CertificateFacts facts, Check(files));
  LogCertificate("certificate_loaded", files, facts);
  return std::unique_ptr<Certificates>(new Certificates(files, std::move(facts)));
}

absl::StatusOr<std::unique_ptr<MutualTls>> MutualTls::Load(const TlsFiles& files, const std::string& trust_domain,
                                                           PeerRole role) {
  KV_ASSIGN_OR_RETURN(std::unique_ptr<Certificates> certificates, Certificates::Load(files));
  const absl::StatusOr<PeerRole> named = RoleOf(certificates->facts().uris, trust_domain);
  if (!named.ok() || *named != role) {
    return absl::FailedPreconditionError(
        absl::StrCat("certificate file ", files.cert, ": peers would refuse it, for it must have the URI name ",
                     RoleUri(trust_domain, role), "; it has [", absl::StrJoin(certificates->facts().uris, ", "), "]"));
  }
  return std::unique_ptr<MutualTls>(new MutualTls(std::move(certificates), trust_domain));
}

std::shared_ptr<grpc::ServerCredentials> MutualTls::Server() const {
  tls::TlsServerCredentialsOptions options(certificates_->provider());
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  std::shared_ptr<grpc::ServerCredentials> credentials = tls::TlsServerCredentials(options);
  credentials->SetAuthMetadataProcessor(NewRoleCheck(trust_domain_));
  return credentials;
}

std::shared_ptr<grpc::ChannelCredentials> MutualTls::ChannelTo(PeerRole role) const {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(certificates_->provider());
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<RoleVerifier>(trust_domain_, role));
  options.set_check_call_host(false);
  return tls::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> PublicServerCredentials(const Certificates& certificates) {
  tls::TlsServerCredentialsOptions options(certificates.provider());
  options.watch_identity_key_cert_pairs();
  if (!certificates.files().ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(const TlsFiles& files) {
  KV_RETURN_IF_ERROR(CheckCaBundle(files.ca));
  grpc::SslCredentialsOptions options;
  KV_ASSIGN_OR_RETURN(options.pem_root_certs, ReadSmallFile("CA file", files.ca, kTlsFileBytesMax));
  if (!files.cert.empty()) {
    KV_RETURN_IF_ERROR(CheckCertificate(files.cert, files.key).status());
    KV_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadSmallFile("certificate file", files.cert, kTlsFileBytesMax));
    KV_ASSIGN_OR_RETURN(options.pem_private_key, ReadSmallFile("private key file", files.key, kTlsFileBytesMax));
  }
  return grpc::SslCredentials(options);
}

}  // namespace kvrelay::rpc
