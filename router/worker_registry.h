// Knows the workers: one WatchStatus stream per address, opened again when it breaks (0.1 s, doubling to 2 s), and
// names resolved again every few seconds, so that workers come and go without a restart of the router.
//
// What follows from their reports is WorkerTable's.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "router/worker.h"
#include "router/worker_address.h"
#include "router/worker_channels.h"
#include "router/worker_table.h"

namespace kvrelay::router {

struct RegistryOptions {
  std::vector<WorkerTarget> targets;
  std::string fingerprint;  // of the router's model file
  absl::Duration hung_after = absl::Seconds(5);
  absl::Duration resolve_every = absl::Seconds(5);
  Resolver resolver = ResolveTarget;
};

class WorkerRegistry final : public WorkerDirectory {
 public:
  // Starts watching. `channels` and `clock` must outlive the registry.
  WorkerRegistry(RegistryOptions options, WorkerChannels* channels, const Clock* clock);
  // Ends all streams and waits for them.
  ~WorkerRegistry() override;

  // All configured workers, ready or not.
  std::vector<Worker> Snapshot() const;
  std::vector<Worker> Candidates(const PlacementRequest& request, const AvoidedWorkers& avoided) override;
  bool Lost(const Worker& worker) const override;
  bool Draining(const Worker& worker) const override;

  void OnOutcome(const Worker& worker, const absl::Status& outcome) override;

  // Counts the router's own calls on a worker, for placement.
  void CallOpened(const Worker& worker, uint64_t prompt_tokens);
  void CallClosed(const Worker& worker, uint64_t prompt_tokens);

 private:
  class Stream;
  using Key = WorkerTable::Key;

  // The status stream of an address.
  struct Watch {
    Stream* stream = nullptr;
    absl::Duration retry_at;
    absl::Duration backoff = kBackoffMin;
  };
  struct Target {
    WorkerTarget target;
    std::vector<std::string> addresses;
    std::string problem = "not resolved yet";
  };
  static constexpr absl::Duration kBackoffMin = absl::Milliseconds(100);
  static constexpr absl::Duration kBackoffMax = absl::Seconds(2);
  static constexpr absl::Duration kTickEvery = absl::Milliseconds(250);

  // Names that have given no address stand for the workers behind them.
  void AddUnresolved(std::vector<Worker>* workers) const;
  void ResolveLoop();
  void ResolveAll();
  void WatchLoop();
  // Opens streams that are due.
  void UpdateStreams();
  // One watch for each address that there is.
  void UpdateWatches();
  void OnReport(Stream* stream, wire::WatchStatusResponse report);
  void OnStreamEnd(Stream* stream, const absl::Status& status);
  void Pause(absl::Duration duration);

  const RegistryOptions options_;
  WorkerChannels* const channels_;
  const Clock* const clock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::vector<Target> targets_;
  bool addresses_changed_ = false;  // and watches not yet
  WorkerTable table_;
  std::map<Key, Watch> watches_;
  absl::Duration ticked_ = -absl::InfiniteDuration();  // the table, last
  int streams_ = 0;                                    // not yet ended
  std::thread resolve_thread_;
  std::thread watch_thread_;
};

}  // namespace kvrelay::router
