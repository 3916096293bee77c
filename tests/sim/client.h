// The clients of a simulation: they send requests, check every message, and resume at the other router when a stream
// breaks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "router/flow_output.h"
#include "tests/sim/cluster.h"
#include "tests/sim/model.h"

namespace kvrelay::sim {

struct ClientFigures {
  uint64_t completed = 0, cancelled = 0, tokens = 0, replans = 0, moves = 0, retried_attempts = 0, resumes = 0;
  std::map<std::string, uint64_t> failures;  // streams that ended badly, by code
};

class Client final : public Process {
 public:
  explicit Client(Cluster* cluster);

  // A random request that comes after `delay`.
  void Add(absl::Duration delay);
  // The client of the request with this seed goes away.
  void Cancel(uint64_t seed);
  // ... does not read for a while.
  void Doze(uint64_t seed);
  bool AllDone() const { return open_ == 0; }
  // Names those that are not.
  void CheckAllDone();
  const ClientFigures& figures() const { return figures_; }

 private:
  // One request over all its streams.
  struct Job {
    router::FlowRequest request;
    Answer answer;
    absl::Duration arrival;
    std::vector<int32_t> tokens;
    std::string text;
    int router = kFirstRouter;
    bool cancelled = false, done = false;
    // The stream now.
    std::shared_ptr<Call> call;
    uint64_t stream = 0;
    uint32_t resumed = 0;
    bool started = false, finished = false, no_cache = false;
    uint64_t strikes = 0;  // of the cluster when the first stream began
    bool calm = true;      // ... and whether nothing was wrong then
  };

  void AddOptions(wire::GenerationSpec& spec);
  router::FlowRequest RandomRequest();
  void Open(Job* job);
  void OnResponse(Job* job, const v1::GenerateResponse& response);
  void OnToken(Job* job, const v1::Token& token);
  void OnFinished(Job* job, const v1::GenerateResponse& response);
  void CheckPositions(Job* job, const v1::PositionAccounting& positions);
  void OnEnd(Job* job, const absl::Status& status);
  void Done(Job* job);
  void CheckFreed(const Job& job);
  void Violation(const Job& job, const std::string& check, const std::string& what);

  Cluster* const cluster_;
  World& world_;
  std::vector<std::unique_ptr<Job>> jobs_;
  int open_ = 0;
  ClientFigures figures_;
};

}  // namespace kvrelay::sim
