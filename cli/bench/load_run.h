// Sends the requests of a workload and keeps time. One thread does all of it, from one completion queue: so a stream's
// events wait for nothing but this client's other events, and nothing here needs a lock. In open loop an arrival never
// waits for a response; how late requests were sent all the same is in their records.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "cli/bench/report.h"
#include "cli/bench/workload.h"
#include "cli/client.h"
#include "common/base/clock.h"
#include "grpcpp/grpcpp.h"

namespace kvrelay::cli::bench {

struct LoadLimits {
  uint32_t concurrency = 0;  // closed loop: so many requests at a time; 0: open loop, as the workload's arrivals tell
  uint64_t requests = 0;     // end after so many
  absl::Duration duration = absl::InfiniteDuration();  // none is sent later; those under way end as they do
};

class LoadRun {
 public:
  // Requests go to the routers of `client` in turn. All pointers must outlive this object.
  LoadRun(const Client* client, Workload* workload, const LoadLimits& limits, const Clock* clock);
  ~LoadRun();
  LoadRun(const LoadRun&) = delete;

  // Runs until all requests have ended. Once `cancelled` says so, which is asked about ten times a second, those under
  // way are cancelled and no more are sent. REQUIRES: called once.
  RunResult Run(const std::function<bool()>& cancelled);

 private:
  struct Call;

  absl::Duration Elapsed() const { return clock_->Now() - start_; }
  // Makes the next request known, unless the run is over.
  void Plan();
  // Starts what is due.
  void StartDue();
  void Start(absl::Duration due);
  // Until the next request is due, at most until it is time to look at `cancelled`.
  absl::Duration Patience() const;
  void OnEvent(Call* call, bool ok);
  void OnMessage(Call* call);
  void OnEnd(Call* call);
  void CancelAll();

  const Client* const client_;
  Workload* const workload_;
  const LoadLimits limits_;
  const Clock* const clock_;
  grpc::CompletionQueue queue_;
  absl::Duration start_;
  uint64_t planned_ = 0;
  std::optional<PlannedRequest> next_;
  std::unordered_map<Call*, std::unique_ptr<Call>> calls_;  // under way
  RunResult result_;
};

}  // namespace kvrelay::cli::bench
