#include "router/client_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"

namespace kvrelay::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kFirst(16, 'a'), kSecond = "Zz09-._~+/Zz09-._~+/==";

TEST(TokenTable, FindsNamesByToken) {
  const auto table = TokenTable::Parse("# clients\n\n alice\t" + kFirst + " \r\nbob.b_2-x " + kSecond + "\nalice " +
                                       std::string(512, 'x'));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->Find(kFirst), "alice");
  EXPECT_EQ(table->Find(kSecond), "bob.b_2-x");
  EXPECT_EQ(table->Find(std::string(512, 'x')), "alice");
  for (const std::string& wrong : {std::string(), kFirst + "a", kFirst.substr(1), std::string("alice"),
                                   std::string(513, 'x'), std::string(1 << 20, 'x')}) {
    EXPECT_EQ(table->Find(wrong), std::nullopt);
  }
}

TEST(TokenTable, BadLinesAreNamedAndNeverQuoted) {
  const std::string secret = "s3cret-s3cret-s3cret";
  for (const std::string& line :
       {std::string("alice"), "alice " + secret + " more", "al/ice " + secret, std::string(65, 'n') + " " + secret,
        "alice " + secret + "\x01", "alice " + secret + "=x", std::string("alice s3cret"),
        "alice " + std::string(513, 's'), "twice " + kFirst, std::string("alice ================")}) {
    const auto table = TokenTable::Parse("one " + kFirst + "\n" + line);
    EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << line;
    EXPECT_THAT(std::string(table.status().message()), HasSubstr("line 2"));
    EXPECT_THAT(std::string(table.status().message()), Not(HasSubstr("s3cret")));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(TokenTable::Parse("# nobody\n").status()));
}

TEST(TokenTable, HasALimit) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) absl::StrAppend(&text, "c token-0123456789-", i, "\n");
  ASSERT_TRUE(TokenTable::Parse(text).ok());
  EXPECT_THAT(std::string(TokenTable::Parse(text + "c " + kFirst).status().message()), HasSubstr("10,000"));
}

TEST(ClientTokens, ChangesOfTheFileAreTakenAndBadOnesAreNot) {
  const std::string path = testing::TempDir() + "/client_tokens_test";
  const auto write = [&](const std::string& text) {
    std::ofstream(path + ".next") << text;
    std::rename((path + ".next").c_str(), path.c_str());
  };
  std::filesystem::remove(path);
  EXPECT_THAT(std::string(ClientTokens::Load(path).status().message()), HasSubstr(path));
  write("alice short");
  EXPECT_EQ(ClientTokens::Load(path).status().code(), absl::StatusCode::kFailedPrecondition);
  write("alice " + kFirst);
  const auto tokens = ClientTokens::Load(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->Find(kFirst), "alice");
  write("no table");
  write("bob " + kSecond);
  while ((*tokens)->Find(kSecond) != "bob") std::this_thread::yield();
  EXPECT_EQ((*tokens)->Find(kFirst), std::nullopt);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvrelay::router
