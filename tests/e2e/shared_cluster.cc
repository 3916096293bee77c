#include "tests/e2e/shared_cluster.h"

#include <memory>

namespace kvrelay::e2e {
namespace {

constexpr const char* kProcesses[] = {"prefill-1", "prefill-2", "decode-1", "decode-2", "router-1"};

struct Shared : ::testing::Environment {
  void TearDown() override {
    if (cluster == nullptr) return;
    const absl::Status stopped = cluster->Stop();
    EXPECT_TRUE(stopped.ok()) << stopped;
    cluster.reset();
  }

  std::unique_ptr<Cluster> cluster;
  absl::Status started;
};

// GoogleTest owns it.
Shared* const shared = static_cast<Shared*>(::testing::AddGlobalTestEnvironment(new Shared));

}  // namespace

void SharedClusterTest::SetUp() {
  if (shared->cluster == nullptr) {
    shared->cluster = std::make_unique<Cluster>();
    shared->started = shared->cluster->StartAll(2, 2);
  }
  ASSERT_TRUE(shared->started.ok()) << shared->started;
}

void SharedClusterTest::TearDown() {
  if (!shared->started.ok()) return;
  for (const char* name : kProcesses) EXPECT_TRUE(cluster().process(name).Running()) << name << " has ended";
  EXPECT_TRUE(cluster().WaitUntilIdle()) << cluster().Describe();
}

Cluster& SharedClusterTest::cluster() { return *shared->cluster; }

}  // namespace kvrelay::e2e
