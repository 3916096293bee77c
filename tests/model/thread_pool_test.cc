#include "common/model/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "common/base/cpu_limit.h"

namespace kvrelay::model {
namespace {

TEST(ThreadPool, EveryThreadRunsOncePerRun) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::vector<int> runs(threads, 0);
    for (int i = 0; i < 200; ++i) pool.Run([&](int thread) { ++runs[thread]; });
    for (int n : runs) EXPECT_EQ(n, 200);
  }
}

TEST(ThreadPool, PinnedThreadsStayOnTheirCpus) {
  const std::vector<int> cpus = AllowedCpus();
  const int threads = static_cast<int>(std::min<size_t>(cpus.size(), 4));
  std::thread([&] {  // pinning outlives the pool: not on the test's own thread
    ThreadPool pool(threads, cpus);
    std::vector<int> seen(threads, -1);
    for (int i = 0; i < 50; ++i) {
      pool.Run([&](int thread) { seen[thread] = sched_getcpu(); });
      for (int t = 0; t < threads; ++t) EXPECT_EQ(seen[t], cpus[t]);
    }
  })
      .join();
}

TEST(ThreadPool, BarrierOrdersPhases) {
  constexpr int kThreads = 3, kRounds = 500;
  ThreadPool pool(kThreads);
  std::vector<int> cells(kThreads, 0);
  std::atomic<int> wrong = 0;
  pool.Run([&](int thread) {
    for (int round = 1; round <= kRounds; ++round) {
      cells[thread] = round;
      pool.Barrier();
      for (int cell : cells) wrong += cell != round;
      pool.Barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, SharesCoverEverythingOnce) {
  ThreadPool pool(3);
  for (int count : {0, 1, 2, 3, 7, 1000}) {
    int next = 0;
    for (int t = 0; t < 3; ++t) {
      const auto [begin, end] = pool.Share(count, t);
      EXPECT_EQ(begin, next);
      EXPECT_LE(begin, end);
      next = end;
    }
    EXPECT_EQ(next, count);
  }
}

}  // namespace
}  // namespace kvrelay::model
