// Certificate authorities and certificates made on the spot, for tests of TLS.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <vector>

namespace kvrelay::testing {

struct CertificateOptions {
  std::string name = "test";           // common name
  std::vector<std::string> uris = {};  // URI names, for example spiffe://kvrelay/router
  std::vector<std::string> dns = {"localhost"};
  std::vector<std::string> ips = {"127.0.0.1"};
  int valid_from_hours = -1, valid_to_hours = 24;  // from now
};

// A certificate and its key, in PEM.
struct PemPair {
  std::string cert, key;
};

class TestCa {
 public:
  explicit TestCa(const std::string& name = "test CA");
  ~TestCa();

  PemPair Issue(const CertificateOptions& options);
  const std::string& cert_pem() const { return cert_pem_; }

 private:
  EVP_PKEY* const key_;
  X509* const cert_;
  std::string cert_pem_;
  int next_serial_ = 2;
};

// Writes `content` to `path`, complete or not at all, also over a file that is there.
void WriteFileAtOnce(const std::string& path, const std::string& content);

}  // namespace kvrelay::testing
