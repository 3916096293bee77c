#include "common/rpc/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/certificates.h"

namespace kvrelay::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() : directory_(::testing::TempDir() + "/tls_files_test") {
    std::filesystem::create_directories(directory_);
  }
  ~TlsFilesTest() override { std::filesystem::remove_all(directory_); }

  std::string File(const std::string& name, const std::string& content) const {
    const std::string path = directory_ + "/" + name;
    testing::WriteFileAtOnce(path, content);
    return path;
  }
  // The message of a refusal, which must name the file.
  static std::string Refusal(const absl::Status& status, const std::string& path) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    return std::string(status.message());
  }

  const std::string directory_;
  testing::TestCa ca_;
};

TEST_F(TlsFilesTest, GoodFilesTellTheirFacts) {
  const auto pair = ca_.Issue({.name = "worker", .uris = {"spiffe://kvrelay/decode", "https://other"}});
  const auto facts = CheckCertificate(File("cert", pair.cert + ca_.cert_pem()), File("key", pair.key));
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(facts->subject, HasSubstr("worker"));
  EXPECT_THAT(facts->uris, ElementsAre("spiffe://kvrelay/decode", "https://other"));
  EXPECT_FALSE(facts->not_after.empty());
  EXPECT_EQ(CheckCaBundle(File("ca", ca_.cert_pem() + testing::TestCa().cert_pem())), absl::OkStatus());
}

TEST_F(TlsFilesTest, BadCertificates) {
  const auto pair = ca_.Issue({});
  const std::string key = File("key", pair.key), missing = directory_ + "/missing";
  const auto refusal = [&](const std::string& path) { return Refusal(CheckCertificate(path, key).status(), path); };
  EXPECT_THAT(refusal(missing), HasSubstr("No such file"));
  EXPECT_THAT(refusal(directory_), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal(File("empty", "")), HasSubstr("no certificate in PEM"));
  EXPECT_THAT(refusal(key), HasSubstr("no certificate in PEM"));
  EXPECT_THAT(refusal(File("cut", pair.cert.substr(0, pair.cert.size() / 2))), HasSubstr("cannot be parsed"));
  EXPECT_THAT(refusal(File("large", std::string(kTlsFileBytesMax + 1, 'x'))), HasSubstr("larger"));
  EXPECT_THAT(refusal(File("expired", ca_.Issue({.valid_from_hours = -2, .valid_to_hours = -1}).cert)),
              HasSubstr("expired"));
  EXPECT_THAT(refusal(File("early", ca_.Issue({.valid_from_hours = 1, .valid_to_hours = 2}).cert)),
              HasSubstr("not valid before"));
}

TEST_F(TlsFilesTest, BadKeys) {
  const auto pair = ca_.Issue({});
  const std::string cert = File("cert", pair.cert);
  const auto refusal = [&](const std::string& path) { return Refusal(CheckCertificate(cert, path).status(), path); };
  EXPECT_THAT(refusal(directory_ + "/missing"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(cert), HasSubstr("no private key"));
  EXPECT_THAT(refusal(File("cut", pair.key.substr(0, pair.key.size() / 2))), HasSubstr("no private key"));
  EXPECT_THAT(refusal(File("other", ca_.Issue({}).key)), HasSubstr("not the key of the certificate"));
}

TEST_F(TlsFilesTest, BadBundles) {
  const auto refusal = [&](const std::string& path) { return Refusal(CheckCaBundle(path), path); };
  EXPECT_THAT(refusal(directory_ + "/missing"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(File("text", "no PEM")), HasSubstr("no certificate in PEM"));
  const std::string& pem = ca_.cert_pem();
  EXPECT_THAT(refusal(File("second", pem + pem.substr(0, pem.size() / 2))), HasSubstr("cannot be parsed"));
}

}  // namespace
}  // namespace kvrelay::rpc
