#include "common/worker/kv_channels.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/worker/task_thread.h"

namespace kvrelay::worker {
namespace {

TEST(KvChannelsTest, OnePerAddress) {
  KvChannels channels;
  EXPECT_EQ(channels.Get("127.0.0.1:1"), channels.Get("127.0.0.1:1"));
  EXPECT_NE(channels.Get("127.0.0.1:1"), channels.Get("127.0.0.1:2"));
}

TEST(KvChannelsTest, ChannelsInUseOutliveTheIdle) {
  KvChannels channels;
  const auto used = channels.Get("127.0.0.1:1");
  for (size_t i = 0; i < 2 * KvChannels::kMaxIdle; ++i) channels.Get(absl::StrCat("127.0.0.1:", 1000 + i));
  EXPECT_EQ(channels.Get("127.0.0.1:1"), used);
}

TEST(TaskThreadTest, RunsAllInOrder) {
  std::string log;
  {
    TaskThread tasks;
    for (char c : {'a', 'b', 'c'}) tasks.Run([&log, c] { log += c; });
  }
  EXPECT_EQ(log, "abc");
}

}  // namespace
}  // namespace kvrelay::worker
