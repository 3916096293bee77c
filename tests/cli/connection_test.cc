#include "cli/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kvrelay::cli {
namespace {

using ::testing::HasSubstr;

class ConnectionTest : public ::testing::Test {
 protected:
  ~ConnectionTest() override { std::filesystem::remove(path_); }
  std::string TokenFile(const std::string& text) const {
    std::ofstream(path_) << text;
    return path_;
  }
  static std::string Refusal(const std::string& address, const Options& options) {
    const auto connection = ResolveConnection({address}, options);
    EXPECT_FALSE(connection.ok());
    return std::string(connection.status().message());
  }

  const std::string path_ = ::testing::TempDir() + "/connection_test.token";
};

TEST_F(ConnectionTest, PlaintextWithoutOptions) {
  const auto connection = ResolveConnection({"router:1"}, {});
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_FALSE(connection->tls);
  EXPECT_EQ(connection->token, "");
}

TEST_F(ConnectionTest, TheTokenIsTheFileWithoutItsNewline) {
  Options options;
  options.token_file = TokenFile("s3cret\n");
  for (const char* local : {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/run/router"}) {
    const auto connection = ResolveConnection({local}, options);
    ASSERT_TRUE(connection.ok()) << connection.status();
    EXPECT_EQ(connection->token, "s3cret");
  }
}

TEST_F(ConnectionTest, NoTokenInTheClearToOtherMachines) {
  Options options;
  options.token_file = TokenFile("s3cret");
  for (const char* other : {"router:1", "10.0.0.1:1", "127.0.0.1.example:1", "dns:///localhost.example:1"}) {
    EXPECT_THAT(Refusal(other, options), HasSubstr("without TLS")) << other;
    const auto one_of_two = ResolveConnection({"127.0.0.1:1", other}, options);
    EXPECT_THAT(std::string(one_of_two.status().message()), HasSubstr(other));
  }
}

TEST_F(ConnectionTest, BadTokenFiles) {
  Options options;
  options.token_file = path_;
  EXPECT_THAT(Refusal("127.0.0.1:1", options), HasSubstr("No such file"));
  for (const char* text : {"", "\n", "two words", "a\nb", "\x01"}) {
    TokenFile(text);
    EXPECT_THAT(Refusal("127.0.0.1:1", options), HasSubstr("one token and nothing else"));
  }
}

TEST_F(ConnectionTest, OptionsThatBelongTogether) {
  Options options;
  options.tls_cert = "cert";
  EXPECT_THAT(Refusal("127.0.0.1:1", options), HasSubstr("belong together"));
  options.tls_key = "key";
  EXPECT_THAT(Refusal("127.0.0.1:1", options), HasSubstr("--tls-ca"));
  options.tls_ca = "/no/such/ca";
  EXPECT_THAT(Refusal("127.0.0.1:1", options), HasSubstr("/no/such/ca"));
}

}  // namespace
}  // namespace kvrelay::cli
