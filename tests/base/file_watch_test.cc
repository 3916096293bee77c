#include "common/base/file_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvrelay {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(5);

class FileWatchTest : public testing::Test {
 protected:
  FileWatchTest() : directory_(testing::TempDir() + "/file_watch_test") {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_ + "/a");
  }
  ~FileWatchTest() override { std::filesystem::remove_all(directory_); }

  static void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  // Waits for one more change than `before`, for as long as it takes.
  void AwaitChange(int before) const {
    for (int seen = changes_; seen <= before; seen = changes_) changes_.wait(seen);
  }
  FileWatch Watch(std::vector<std::string> paths) {
    return FileWatch(std::move(paths), kInterval, [this] {
      ++changes_;
      changes_.notify_all();
    });
  }

  const std::string directory_;
  std::atomic<int> changes_ = 0;
};

TEST_F(FileWatchTest, NoticesContentAppearanceAndRemoval) {
  const std::string first = directory_ + "/a/1", second = directory_ + "/a/2";
  Write(first, "one");
  const FileWatch watch = Watch({first, second});
  EXPECT_EQ(changes_, 0);
  Write(first, "one more");
  AwaitChange(0);
  int before = changes_;
  Write(second, "new");
  AwaitChange(before);
  before = changes_;
  std::remove(first.c_str());
  AwaitChange(before);
}

TEST_F(FileWatchTest, NoticesASwappedDirectory) {
  std::filesystem::create_directories(directory_ + "/b");
  Write(directory_ + "/a/file", "text");
  Write(directory_ + "/b/file", "text");
  std::filesystem::create_directory_symlink("a", directory_ + "/now");
  const FileWatch watch = Watch({directory_ + "/now/file"});
  std::filesystem::create_directory_symlink("b", directory_ + "/next");
  std::filesystem::rename(directory_ + "/next", directory_ + "/now");
  AwaitChange(0);
  EXPECT_EQ(changes_, 1);
}

TEST_F(FileWatchTest, EndsWithoutAChange) {
  FileWatch(std::vector<std::string>{directory_ + "/nothing"}, absl::Hours(1), [] { FAIL(); });
}

}  // namespace
}  // namespace kvrelay
