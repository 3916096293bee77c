#include "common/rpc/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace kvrelay::rpc {
namespace {

constexpr char kCertificateFile[] = "certificate file", kKeyFile[] = "private key file", kCaFile[] = "CA file";

template <auto function>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    function(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

absl::Status Bad(const char* what, const std::string& path, const std::string& problem) {
  return absl::FailedPreconditionError(absl::StrCat(what, " ", path, ": ", problem));
}

// The last error of OpenSSL on this thread, which is cleared.
std::string LastError() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown cause" : reason;
}

// Without it, OpenSSL would ask on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::StatusOr<Bio> Open(const char* what, const std::string& path) {
  KV_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(what, path, kTlsFileBytesMax));
  Bio bio(BIO_new(BIO_s_mem()));
  KV_CHECK(bio != nullptr && BIO_write(bio.get(), text.data(), static_cast<int>(text.size())) == ssize_t(text.size()),
           "memory takes what fits into an int");
  return bio;
}

// All certificates of a file, in their order.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(const char* what, const std::string& path) {
  KV_ASSIGN_OR_RETURN(const Bio bio, Open(what, path));
  ERR_clear_error();
  std::vector<Certificate> certificates;
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(certificate);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string cause = LastError();
  if (!at_end) return Bad(what, path, absl::StrCat("a certificate cannot be parsed: ", cause));
  if (certificates.empty()) return Bad(what, path, "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)");
  return certificates;
}

absl::StatusOr<Key> ReadKey(const std::string& path) {
  KV_ASSIGN_OR_RETURN(const Bio bio, Open(kKeyFile, path));
  ERR_clear_error();
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return Bad(kKeyFile, path, absl::StrCat("holds no private key in PEM without a passphrase: ", LastError()));
  }
  return key;
}

std::string TextOf(const ASN1_TIME* time) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || ASN1_TIME_print(bio.get(), time) != 1) return "an unreadable time";
  char* text = nullptr;
  const auto length = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(length));
}

std::vector<std::string> Uris(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

CertificateFacts FactsOf(const X509* certificate) {
  char subject[256] = "";
  X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof(subject));
  return {.subject = subject, .not_after = TextOf(X509_get0_notAfter(certificate)), .uris = Uris(certificate)};
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& what, const std::string& path, int64_t bytes_max) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(bytes_max) + 1, '\0');
  // A directory opens, but cannot be read.
  if (!file || !(file.read(text.data(), bytes_max + 1) || file.eof())) {
    return absl::FailedPreconditionError(absl::StrCat(what, " ", path, ": cannot be read: ", std::strerror(errno)));
  }
  if (file.gcount() > bytes_max) {
    return absl::FailedPreconditionError(absl::StrCat(what, " ", path, ": is larger than ", bytes_max, " bytes"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::StatusOr<CertificateFacts> CheckCertificate(const std::string& cert_path, const std::string& key_path) {
  KV_ASSIGN_OR_RETURN(const std::vector<Certificate> chain, ReadCertificates(kCertificateFile, cert_path));
  X509* const own = chain.front().get();
  CertificateFacts facts = FactsOf(own);
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0) {
    return Bad(kCertificateFile, cert_path, absl::StrCat("the certificate has expired: ", facts.not_after));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0) {
    return Bad(kCertificateFile, cert_path,
               absl::StrCat("the certificate is not valid before ", TextOf(X509_get0_notBefore(own))));
  }
  KV_ASSIGN_OR_RETURN(const Key key, ReadKey(key_path));
  if (X509_check_private_key(own, key.get()) != 1) {
    ERR_clear_error();
    return Bad(kKeyFile, key_path, absl::StrCat("is not the key of the certificate in ", cert_path));
  }
  return facts;
}

absl::Status CheckCaBundle(const std::string& ca_path) { return ReadCertificates(kCaFile, ca_path).status(); }

}  // namespace kvrelay::rpc
