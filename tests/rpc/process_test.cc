#include "common/rpc/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace kvrelay::rpc {
namespace {

TEST(PortFileTest, WrittenWhole) {
  const std::string path = ::testing::TempDir() + "/port";
  ASSERT_TRUE(WritePortFile(path, "127.0.0.1:4000").ok());
  ASSERT_TRUE(WritePortFile(path, "127.0.0.1:4001").ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "127.0.0.1:4001\n");
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir())) {
    entries += entry.path().string().find("/port") != std::string::npos;
  }
  EXPECT_EQ(entries, 1) << "the temporary file stayed";
  std::filesystem::remove(path);
}

TEST(PortFileTest, MissingFolderIsNamed) {
  const absl::Status status = WritePortFile("/no/such/folder/port", "a:1");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("/no/such/folder/port"), absl::string_view::npos);
}

// Runs `body` in a child, feeds it the signals, and returns its wait status. The child confirms by a byte on a pipe
// that it is ready for the next one.
template <typename Body>
int RunChild(int signals, Body body) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    body(ready[1]);
    _exit(99);
  }
  for (int i = 0; i < signals; ++i) {
    char byte;
    if (read(ready[0], &byte, 1) != 1) return -1;
    kill(child, SIGTERM);
  }
  int status = 0;
  waitpid(child, &status, 0);
  close(ready[0]);
  close(ready[1]);
  return status;
}

void Ready(int fd) { (void)!write(fd, "x", 1); }

TEST(StopSignalsTest, FirstIsReturned) {
  const int status = RunChild(1, [](int fd) {
    StopSignals signals;
    signals.Block();
    Ready(fd);
    _exit(signals.Wait() == SIGTERM ? 7 : 8);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopSignalsTest, SecondEndsAtOnce) {
  const int status = RunChild(2, [](int fd) {
    StopSignals signals;
    signals.Block();
    Ready(fd);
    signals.Wait();
    Ready(fd);
    while (true) pause();
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
}

TEST(StopSignalsTest, EndsAtOnceBeforeBlock) {
  const int status = RunChild(1, [](int fd) {
    StopSignals signals;
    Ready(fd);
    while (true) pause();
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
}

}  // namespace
}  // namespace kvrelay::rpc
