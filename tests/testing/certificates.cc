#include "tests/testing/certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace kvrelay::testing {
namespace {

EVP_PKEY* NewKey() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  KV_CHECK(key != nullptr, "OpenSSL makes P-256 keys");
  return key;
}

// What a writer of PEM writes.
template <typename Write>
std::string Pem(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  KV_CHECK(bio != nullptr && write(bio) == 1, "PEM is written to memory");
  char* text = nullptr;
  const auto length = BIO_get_mem_data(bio, &text);
  std::string pem(text, static_cast<size_t>(length));
  BIO_free(bio);
  return pem;
}

std::string CertPem(X509* cert) {
  return Pem([cert](BIO* bio) { return PEM_write_bio_X509(bio, cert); });
}

void AddExtension(X509* cert, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  KV_CHECK(extension != nullptr && X509_add_ext(cert, extension, -1) == 1, "the extension is well formed");
  X509_EXTENSION_free(extension);
}

// A certificate without extensions and signature. `issuer` null: its own.
X509* NewCertificate(const std::string& name, EVP_PKEY* key, X509* issuer, int serial, int from_hours, int to_hours) {
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
  X509_gmtime_adj(X509_getm_notBefore(cert), from_hours * 3600L);
  X509_gmtime_adj(X509_getm_notAfter(cert), to_hours * 3600L);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert, X509_get_subject_name(issuer == nullptr ? cert : issuer));
  X509_set_pubkey(cert, key);
  return cert;
}

void Sign(X509* cert, EVP_PKEY* key) { KV_CHECK(X509_sign(cert, key, EVP_sha256()) > 0, "EC keys sign"); }

}  // namespace

TestCa::TestCa(const std::string& name)
    : key_(NewKey()), cert_(NewCertificate(name, key_, nullptr, /*serial=*/1, -24, 24 * 365)) {
  AddExtension(cert_, cert_, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(cert_, cert_, NID_key_usage, "critical,keyCertSign,cRLSign");
  Sign(cert_, key_);
  cert_pem_ = CertPem(cert_);
}

TestCa::~TestCa() {
  X509_free(cert_);
  EVP_PKEY_free(key_);
}

PemPair TestCa::Issue(const CertificateOptions& options) {
  EVP_PKEY* key = NewKey();
  X509* cert =
      NewCertificate(options.name, key, cert_, next_serial_++, options.valid_from_hours, options.valid_to_hours);
  std::vector<std::string> names;
  for (const std::string& uri : options.uris) names.push_back("URI:" + uri);
  for (const std::string& dns : options.dns) names.push_back("DNS:" + dns);
  for (const std::string& ip : options.ips) names.push_back("IP:" + ip);
  if (!names.empty()) AddExtension(cert, cert_, NID_subject_alt_name, absl::StrJoin(names, ","));
  AddExtension(cert, cert_, NID_ext_key_usage, "serverAuth,clientAuth");
  Sign(cert, key_);
  PemPair pair{.cert = CertPem(cert), .key = Pem([key](BIO* bio) {
                                        return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr,
                                                                        nullptr);
                                      })};
  X509_free(cert);
  EVP_PKEY_free(key);
  return pair;
}

void WriteFileAtOnce(const std::string& path, const std::string& content) {
  const std::string next = path + ".next";
  std::ofstream(next, std::ios::binary) << content;
  KV_CHECK(std::rename(next.c_str(), path.c_str()) == 0, "the test's directory is writable");
}

}  // namespace kvrelay::testing
