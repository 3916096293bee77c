// HTTPS: with the files of the gRPC port, read again when they change.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/router/http/gateway_fixture.h"
#include "tests/testing/certificates.h"

namespace kvrelay::http {
namespace {

class HttpsTest : public GatewayTest {
 protected:
  HttpsTest() { std::filesystem::create_directories(directory); }
  ~HttpsTest() override { std::filesystem::remove_all(directory); }

  std::string Write(const std::string& name, const std::string& content) {
    kvrelay::testing::WriteFileAtOnce(directory + "/" + name, content);
    return directory + "/" + name;
  }
  rpc::TlsFiles Files(kvrelay::testing::TestCa& ca) {
    const auto pair = ca.Issue({});
    return {.cert = Write("cert", pair.cert), .key = Write("key", pair.key)};
  }
  // Whether a client that trusts this CA, and shows a certificate of `own` if there is one, gets an answer.
  bool Works(kvrelay::testing::TestCa& trusted, kvrelay::testing::TestCa* own = nullptr) {
    const auto pair = own == nullptr ? kvrelay::testing::PemPair() : own->Issue({});
    httplib::SSLClient https("127.0.0.1", port, own == nullptr ? "" : Write("own.cert", pair.cert),
                             own == nullptr ? "" : Write("own.key", pair.key));
    https.set_ca_cert_path(Write("ca", trusted.cert_pem()).c_str());
    const auto answer = https.Post("/v1/completions", R"({"prompt": "hello", "stream": true})", "application/json");
    return answer && answer->status == 200 && answer->body.find("[DONE]") != std::string::npos;
  }

  const std::string directory = absl::StrCat(::testing::TempDir(), "/https_test.", getpid());
  kvrelay::testing::TestCa ca{"first"}, other{"second"};
};

TEST_F(HttpsTest, ServesTlsOnlyWithTheCertificateOfTheFiles) {
  Start({.tls = Files(ca)});
  EXPECT_TRUE(Works(ca));
  EXPECT_FALSE(Works(other)) << "the client does not know that CA";
  EXPECT_FALSE(client->Get("/health")) << "plaintext";
  EXPECT_TRUE(Works(ca)) << "and goes on";
  Files(other);
  EXPECT_TRUE(Eventually([&] { return Works(other); })) << "new files count for new connections";
}

TEST_F(HttpsTest, AsksForCertificatesOfClientsWhereThereIsACa) {
  rpc::TlsFiles files = Files(ca);
  files.ca = Write("clients", other.cert_pem());
  Start({.tls = files});
  EXPECT_TRUE(Works(ca, &other));
  EXPECT_FALSE(Works(ca));
  EXPECT_FALSE(Works(ca, &ca));
}

TEST_F(HttpsTest, BadFilesAreNoStart) {
  const rpc::TlsFiles files = Files(ca);
  Write("key", other.Issue({}).key);
  const auto started = Gateway::Start({.listen = "127.0.0.1:0", .tls = files}, rpc::NewChannel(service.address()));
  EXPECT_TRUE(absl::IsFailedPrecondition(started.status())) << started.status();
}

// A client that goes is noticed behind TLS too.
TEST_F(HttpsTest, AClientThatGoesEndsItsGenerations) {
  Start({.tls = Files(ca)});
  httplib::SSLClient https("127.0.0.1", port);
  https.set_ca_cert_path(Write("ca", ca.cert_pem()).c_str());
  httplib::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.headers = {{"Content-Type", "application/json"}};
  request.body = R"({"prompt": "hang", "stream": true})";
  request.content_receiver = [](const char*, size_t, uint64_t, uint64_t) { return false; };  // hangs up
  EXPECT_FALSE(https.send(request));
  EXPECT_TRUE(Eventually([&] { return service.cancelled() == 1; }));
}

}  // namespace
}  // namespace kvrelay::http
