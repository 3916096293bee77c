#include "router/worker_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "common/rpc/server.h"
#include "tests/router/fake_model.h"
#include "tests/router/fake_worker_server.h"

namespace kvrelay::router {
namespace {

using ::testing::HasSubstr;

WorkerTarget Target(v1::WorkerRole role, const std::string& address) {
  auto target = ParseTarget(role, address);
  EXPECT_TRUE(target.ok()) << target.status();
  return *target;
}

class WorkerRegistryTest : public testing::Test {
 protected:
  void Watch(std::vector<WorkerTarget> targets) {
    options_.targets = std::move(targets);
    options_.fingerprint = kFakeFingerprint;
    options_.resolve_every = absl::Milliseconds(20);
    registry_.emplace(options_, &channels_, Clock::Real());
  }
  bool Ready(size_t index, bool ready = true) {
    return Eventually([&] {
      const auto workers = registry_->Snapshot();
      return workers.size() > index && workers[index].ready == ready;
    });
  }
  // Waits until the only worker has this problem.
  bool Problem(const std::string& part) {
    return Eventually([&] {
      const auto workers = registry_->Snapshot();
      return workers.size() == 1 && !workers[0].ready && workers[0].problem.find(part) != std::string::npos;
    });
  }

  FakeFabric fabric_;
  WorkerChannels channels_;
  RegistryOptions options_;
  std::optional<WorkerRegistry> registry_;
};

TEST_F(WorkerRegistryTest, ConnectsAndReports) {
  FakeWorkerServer prefill({.role = v1::WORKER_ROLE_PREFILL, .instance = "p1"}, &fabric_);
  FakeWorkerServer decode({.role = v1::WORKER_ROLE_DECODE, .instance = "d1", .epoch = 9}, &fabric_);
  Watch({Target(v1::WORKER_ROLE_DECODE, decode.address()), Target(v1::WORKER_ROLE_PREFILL, prefill.address())});
  ASSERT_TRUE(Ready(0));
  ASSERT_TRUE(Ready(1));
  const auto workers = registry_->Snapshot();
  EXPECT_EQ(workers[0].role, v1::WORKER_ROLE_PREFILL);
  EXPECT_EQ(workers[1].instance(), "d1");
  EXPECT_EQ(workers[1].epoch(), 9u);
  EXPECT_EQ(workers[1].status.context_length(), kFakeContext);
  EXPECT_FALSE(registry_->Lost(workers[1]));
  registry_->CallOpened(workers[1], 0);
  EXPECT_EQ(registry_->Snapshot()[1].calls, 1u);
  registry_->CallClosed(workers[1], 0);
  EXPECT_EQ(registry_->Snapshot()[1].calls, 0u);
  EXPECT_EQ(registry_->Snapshot()[1].calls_total, 1u);
}

TEST_F(WorkerRegistryTest, NobodyThere) {
  Watch({Target(v1::WORKER_ROLE_DECODE, "127.0.0.1:1")});
  EXPECT_TRUE(Problem("not connected"));
}

TEST_F(WorkerRegistryTest, ForeignModelIsNamed) {
  FakeWorkerServer decode({.instance = "d1", .fingerprint = "0123456789abcdef"}, &fabric_);
  Watch({Target(v1::WORKER_ROLE_DECODE, decode.address())});
  EXPECT_TRUE(Problem("two models in one service"));
  EXPECT_TRUE(registry_->Snapshot()[0].foreign_model);
}

TEST_F(WorkerRegistryTest, WrongRoleIsNamed) {
  FakeWorkerServer decode({.instance = "d1"}, &fabric_);
  Watch({Target(v1::WORKER_ROLE_PREFILL, decode.address())});
  EXPECT_TRUE(Problem("is a decode worker"));
}

TEST_F(WorkerRegistryTest, DrainingWorkersAreNotReady) {
  FakeWorkerServer decode({.instance = "d1"}, &fabric_);
  Watch({Target(v1::WORKER_ROLE_DECODE, decode.address())});
  ASSERT_TRUE(Ready(0));
  decode.draining = true;
  EXPECT_TRUE(Problem("draining"));
  EXPECT_FALSE(registry_->Lost(registry_->Snapshot()[0]));  // its calls may end in peace
}

TEST_F(WorkerRegistryTest, AStandingBeatIsAHang) {
  options_.hung_after = absl::Milliseconds(300);
  FakeWorkerServer decode({.instance = "d1"}, &fabric_);
  Watch({Target(v1::WORKER_ROLE_DECODE, decode.address())});
  ASSERT_TRUE(Ready(0));
  const Worker worker = registry_->Snapshot()[0];
  decode.frozen = true;
  EXPECT_TRUE(Problem("no sign of life"));
  EXPECT_TRUE(registry_->Lost(worker));
  decode.frozen = false;
  EXPECT_TRUE(Ready(0));
}

TEST_F(WorkerRegistryTest, ARestartAtTheSameAddressIsAnotherWorker) {
  auto decode = std::make_unique<FakeWorkerServer>(FakeWorkerOptions{.instance = "d1", .epoch = 1}, &fabric_);
  const std::string address = decode->address();
  Watch({Target(v1::WORKER_ROLE_DECODE, address)});
  ASSERT_TRUE(Ready(0));
  const Worker before = registry_->Snapshot()[0];
  decode = nullptr;
  ASSERT_TRUE(Problem("not connected"));
  decode =
      std::make_unique<FakeWorkerServer>(FakeWorkerOptions{.instance = "d1", .epoch = 2, .listen = address}, &fabric_);
  ASSERT_TRUE(Ready(0));
  EXPECT_EQ(registry_->Snapshot()[0].epoch(), 2u);
  EXPECT_TRUE(registry_->Lost(before));
}

TEST_F(WorkerRegistryTest, NamesAreResolvedAgain) {
  FakeWorkerServer first({.instance = "d1"}, &fabric_), second({.instance = "d2"}, &fabric_);
  std::mutex mutex;
  absl::StatusOr<std::vector<std::string>> answer = absl::UnavailableError("cannot resolve workers");
  options_.resolver = [&](const WorkerTarget&) {
    std::lock_guard lock(mutex);
    return answer;
  };
  const auto set = [&](absl::StatusOr<std::vector<std::string>> next) {
    std::lock_guard lock(mutex);
    answer = std::move(next);
  };
  Watch({Target(v1::WORKER_ROLE_DECODE, "dns:///workers:7000")});
  ASSERT_TRUE(Problem("cannot resolve workers"));
  EXPECT_EQ(registry_->Snapshot()[0].address, "dns:///workers:7000");
  set(std::vector<std::string>{first.address(), second.address()});
  ASSERT_TRUE(Ready(0));
  ASSERT_TRUE(Ready(1));
  set(absl::UnavailableError("name server is away"));  // keeps what was found
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(registry_->Snapshot().size(), 2u);
  set(std::vector<std::string>{second.address()});
  ASSERT_TRUE(Eventually([&] { return registry_->Snapshot().size() == 1; }));
  ASSERT_TRUE(Ready(0));
  EXPECT_EQ(registry_->Snapshot()[0].instance(), "d2");
  registry_.reset();  // the resolver goes first
}

TEST_F(WorkerRegistryTest, OneWorkerAtTwoAddressesCountsOnce) {
  FakeWorkerServer one({.instance = "d1"}, &fabric_), same({.instance = "d1"}, &fabric_);
  Watch({Target(v1::WORKER_ROLE_DECODE, one.address()), Target(v1::WORKER_ROLE_DECODE, same.address())});
  ASSERT_TRUE(Eventually([&] {
    const auto workers = registry_->Snapshot();
    return workers.size() == 2 && workers[0].ready && workers[1].problem.find("same worker") != std::string::npos;
  }));
}

TEST(WorkerAddress, Targets) {
  EXPECT_FALSE(Target(v1::WORKER_ROLE_DECODE, "127.0.0.1:7000").resolve);
  const WorkerTarget name = Target(v1::WORKER_ROLE_DECODE, "dns:///localhost:7000");
  EXPECT_TRUE(name.resolve);
  const auto addresses = ResolveTarget(name);
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_FALSE(addresses->empty());
  for (const char* bad : {"", "host", "host:0", "dns:///", "dns:///host", ":1", "host:99999"}) {
    EXPECT_FALSE(ParseTarget(v1::WORKER_ROLE_DECODE, bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace kvrelay::router
