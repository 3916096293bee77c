// Each test lays out a directory as the kernel lays out its cgroup file system.
#include "common/base/cpu_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace kvrelay {
namespace {

class CpuLimitTest : public testing::Test {
 protected:
  CpuLimitTest() {
    std::string name = testing::TempDir() + "/cgroup.XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~CpuLimitTest() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = directory_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  int Usable(int allowed) { return UsableCpus(allowed, directory_.string()); }

  std::filesystem::path directory_;
};

TEST_F(CpuLimitTest, WithoutCgroupsTheMaskCounts) {
  EXPECT_EQ(Usable(1), 1);
  EXPECT_EQ(Usable(64), 64);
}

TEST_F(CpuLimitTest, AtLeastOne) {
  EXPECT_EQ(Usable(0), 1);
  Write("cpu.max", "1000 100000\n");
  EXPECT_EQ(Usable(8), 1);
}

TEST_F(CpuLimitTest, SecondVersionQuotaIsRoundedUp) {
  Write("cpu.max", "200000 100000\n");
  EXPECT_EQ(Usable(8), 2);
  Write("cpu.max", "200001 100000\n");
  EXPECT_EQ(Usable(8), 3);
  Write("cpu.max", "150000 100000\n");
  EXPECT_EQ(Usable(1), 1);
}

TEST_F(CpuLimitTest, SecondVersionWithoutQuota) {
  Write("cpu.max", "max 100000\n");
  EXPECT_EQ(Usable(8), 8);
}

TEST_F(CpuLimitTest, FirstVersionQuota) {
  Write("cpu/cpu.cfs_quota_us", "250000\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Usable(8), 3);
  EXPECT_EQ(Usable(2), 2);
}

TEST_F(CpuLimitTest, FirstVersionWithoutQuota) {
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Usable(8), 8);
}

TEST_F(CpuLimitTest, UnreadableFilesCountAsNoQuota) {
  for (const char* text : {"", "nonsense", "100000", "0 100000", "100000 0", "-5 -5"}) {
    Write("cpu.max", text);
    EXPECT_EQ(Usable(8), 8) << "cpu.max: " << text;
  }
}

TEST_F(CpuLimitTest, ThisProcessMayUseAtLeastOne) {
  EXPECT_GE(UsableCpus(), 1);
  const std::vector<int> cpus = AllowedCpus();
  EXPECT_GE(static_cast<int>(cpus.size()), UsableCpus());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
}

}  // namespace
}  // namespace kvrelay
