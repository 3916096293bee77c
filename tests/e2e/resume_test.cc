// Routers that die under the client program: what it prints is what it prints undisturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cluster.h"

namespace kvrelay::e2e {
namespace {

constexpr size_t kHalf = 400;  // bytes: the text has more than twice as many

class RouterKilled : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cluster_.StartAll(1, 1), absl::OkStatus());
    ASSERT_EQ(cluster_.StartRouter("router-2"), absl::OkStatus());
    ASSERT_EQ(cluster_.WaitReady(), absl::OkStatus());
  }

  // The output of the client with these routers; `at_half` is called when half of it is there.
  std::string Output(const std::string& name, const std::string& routers, const std::function<void()>& at_half) {
    const auto client =
        Process::Start("kvrelay",
                       {"generate", "--quiet", "--address", routers, "--max-tokens", "200", "--min-tokens", "200",
                        "--temperature", "0.9", "--seed", "5", "--repetition-penalty", "1.1", "--presence-penalty",
                        "0.5", "--frequency-penalty", "0.2", "Once upon a time"},
                       absl::StrCat(cluster_.directory(), "/", name));
    if (!client.ok()) return client.status().ToString();
    EXPECT_TRUE(WaitUntil([&] { return (*client)->Log().size() > kHalf || !(*client)->Running(); }));
    at_half();
    EXPECT_EQ((*client)->Wait().value(), 0);
    return (*client)->Log();
  }

  Cluster cluster_;
};

TEST_F(RouterKilled, TheClientGoesOnWithTheSameText) {
  const std::string first = cluster_.address("router-1"), second = cluster_.address("router-2");
  const std::string undisturbed = Output("undisturbed", first, [] {});
  ASSERT_GT(undisturbed.size(), 2 * kHalf);
  EXPECT_EQ(
      Output("two-routers", absl::StrCat(first, ",", second), [&] { cluster_.process("router-1").Signal(SIGKILL); }),
      undisturbed);
  EXPECT_TRUE(cluster_.WaitUntilIdle()) << cluster_.Describe();
  EXPECT_EQ(Output("one-router", second, [&] { ASSERT_EQ(cluster_.Restart("router-2"), absl::OkStatus()); }),
            undisturbed);
  EXPECT_TRUE(cluster_.WaitUntilIdle()) << cluster_.Describe();
}

}  // namespace
}  // namespace kvrelay::e2e
