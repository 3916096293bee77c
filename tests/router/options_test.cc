#include "router/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvrelay::router {
namespace {

std::variant<RouterOptions, int> Parse(std::vector<const char*> args) {
  args.insert(args.begin(), "kvrelay-router");
  return ParseOptions(static_cast<int>(args.size()), args.data());
}

TEST(Options, WorkersComeInListsAndRepeated) {
  const auto parsed = Parse({"--model", "m.gguf", "--prefill", "a:1,b:2", "--decode", "c:3", "--decode", "dns:///d:4"});
  ASSERT_TRUE(std::holds_alternative<RouterOptions>(parsed));
  const auto& options = std::get<RouterOptions>(parsed);
  ASSERT_EQ(options.workers.size(), 4u);
  EXPECT_EQ(options.workers[1].text, "b:2");
  EXPECT_EQ(options.workers[1].role, v1::WORKER_ROLE_PREFILL);
  EXPECT_TRUE(options.workers[3].resolve);
  EXPECT_EQ(options.listen, "127.0.0.1:0");
  EXPECT_THAT(options.instance, testing::StartsWith("router-"));
}

TEST(Options, EnvironmentIsReadAndFlagsWin) {
  setenv("KVRELAY_DECODE", "env:1", 1);
  setenv("KVRELAY_MAX_ACTIVE", "7", 1);
  const auto from_env = Parse({"--model", "m.gguf"});
  const auto from_flag = Parse({"--model", "m.gguf", "--decode", "flag:1"});
  unsetenv("KVRELAY_DECODE");
  unsetenv("KVRELAY_MAX_ACTIVE");
  ASSERT_TRUE(std::holds_alternative<RouterOptions>(from_env));
  EXPECT_EQ(std::get<RouterOptions>(from_env).workers[0].text, "env:1");
  EXPECT_EQ(std::get<RouterOptions>(from_env).max_active, 7u);
  ASSERT_TRUE(std::holds_alternative<RouterOptions>(from_flag));
  EXPECT_EQ(std::get<RouterOptions>(from_flag).workers[0].text, "flag:1");
}

TEST(Options, PublicCertificatesDefaultToThoseForWorkers) {
  const auto one = Parse({"--model=m", "--decode=a:1", "--tls-cert=c", "--tls-key=k", "--tls-ca=a", "--client-ca=ca"});
  ASSERT_TRUE(std::holds_alternative<RouterOptions>(one));
  EXPECT_EQ(std::get<RouterOptions>(one).public_files.cert, "c");
  EXPECT_EQ(std::get<RouterOptions>(one).public_files.ca, "ca");
  const auto own =
      Parse({"--model=m", "--decode=a:1", "--listen=0.0.0.0:1", "--public-tls-cert=p", "--public-tls-key=q"});
  ASSERT_TRUE(std::holds_alternative<RouterOptions>(own));
  EXPECT_EQ(std::get<RouterOptions>(own).public_files.key, "q");
  EXPECT_TRUE(std::get<RouterOptions>(own).tls.files.none());
  EXPECT_EQ(std::get<RouterOptions>(own).public_files.ca, "");
}

TEST(Options, HttpBeyondLoopbackNeedsTlsToo) {
  const auto good = [](std::vector<const char*> args) {
    args.insert(args.end(), {"--model=m", "--decode=a:1"});
    return std::holds_alternative<RouterOptions>(Parse(args));
  };
  EXPECT_TRUE(good({"--http-listen=127.0.0.1:0"}));
  EXPECT_TRUE(good({"--http-listen=0.0.0.0:1", "--allow-plaintext"}));
  EXPECT_TRUE(good({"--http-listen=0.0.0.0:1", "--public-tls-cert=p", "--public-tls-key=q"}));
  EXPECT_TRUE(good({"--http-listen=0.0.0.0:1", "--tls-cert=p", "--tls-key=q", "--tls-ca=c"}));
  EXPECT_FALSE(good({"--http-listen=0.0.0.0:1"}));
}

TEST(Options, BadValuesEndWithTwo) {
  const std::vector<std::vector<const char*>> bad = {
      {},
      {"--model", "m.gguf"},
      {"--model", "m.gguf", "--decode", "noport"},
      {"--model", "m.gguf", "--decode", "a:1", "--max-active", "0"},
      {"--model", "m.gguf", "--decode", "a:1", "--log-level", "loud"},
      {"--model", "m.gguf", "--decode", "a:1", "--listen", "here"},
      {"--model", "m.gguf", "--decode", "a:1", "--instance", "two words"},
      {"--model", "m.gguf", "--decode", "a:1", "--listen", "0.0.0.0:1"},
      {"--model", "m.gguf", "--decode", "a:1", "--public-tls-cert", "c"},
      {"--model", "m.gguf", "--decode", "a:1", "--client-ca", "c"},
      {"--model", "m.gguf", "--decode", "a:1", "--tls-ca", "c"},
      {"--model", "m.gguf", "--decode", "a:1", "--client-max-requests", "-1"},
      {"--model", "m.gguf", "--decode", "a:1", "--http-listen", "here"},
      {"--model", "m.gguf", "--decode", "a:1", "--http-listen", "0.0.0.0:1"},
      {"--model", "m.gguf", "--decode", "a:1", "--http-max-requests", "0"},
      {"--model", "m.gguf", "--decode", "a:1", "--unknown"}};
  for (size_t i = 0; i < bad.size(); ++i) {
    const auto parsed = Parse(bad[i]);
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << i;
    EXPECT_EQ(std::get<int>(parsed), 2) << i;
  }
  EXPECT_EQ(std::get<int>(Parse({"--help"})), 0);
}

}  // namespace
}  // namespace kvrelay::router
