#include "tests/sim/simulation.h"

#include "tests/sim/cluster.h"
#include "tests/sim/faults.h"

namespace kvrelay::sim {
namespace {

constexpr absl::Duration kFirstRequest = absl::Seconds(1);  // the routers know the workers
constexpr absl::Duration kLastRequest = absl::Seconds(6);
// Longest trouble, keepalive, and the time of the longest stream: what is not done then never will be.
constexpr absl::Duration kPatience = absl::Seconds(120);
// After the last trouble: a server that hears of a cut late, and the longest pause of a circuit with its trial.
constexpr absl::Duration kSettle = absl::Seconds(16);
constexpr absl::Duration kReturn = absl::Seconds(30);

}  // namespace

Outcome Simulate(const Options& options, EdgeCounts* counts) {
  World world(options.seed, options.trace);
  Faults faults(&world, counts);
  Cluster cluster(&world, [&](RouterCall* request) { faults.OnSituation(request); });
  Client client(&cluster);
  faults.Serve(&cluster, &client);
  for (int i = 0; i < options.requests; ++i) client.Add(world.Pick(kFirstRequest, kLastRequest));
  const std::vector<Edge>& edges = PossibleEdges();
  // All edges in turn, so that each is aimed at equally often; those of one seed have nothing to do with each other.
  // Requests wait for room seldom and not for long, so every eighth seed aims one more at them, from the start.
  constexpr Kind kOnWaiting[] = {Kind::kKillRouter, Kind::kSuspendRouter, Kind::kCancel, Kind::kCancel};
  for (int i = 0; i < options.faults; ++i) {
    const uint64_t number = (options.seed * options.faults + i) * 67;
    const absl::Duration from = world.Pick(kFirstRequest, kLastRequest - absl::Seconds(1));
    if (i == 0 && options.seed % 8 == 0) {
      faults.Aim({State::kQueued, kOnWaiting[options.seed / 8 % 4]}, kFirstRequest);
    } else {
      faults.Aim(edges[number % edges.size()], from);
    }
  }

  if (!world.Run(world.Now() + kPatience, [&] { return client.AllDone(); })) client.CheckAllDone();
  world.Run(world.Now() + kPatience, [&] { return cluster.Calm(); });
  world.Run(world.Now() + kSettle, [] { return false; });
  if (client.AllDone()) cluster.CheckNothingLeft();
  const absl::Duration late = world.Now() + kReturn;
  while (!cluster.AllReady() && world.Now() < late) world.Run(world.Now() + absl::Seconds(1), [] { return false; });
  if (!cluster.AllReady()) cluster.observer().Violation("return", "a router does not use all workers again");
  return {cluster.observer().violations(), client.figures()};
}

}  // namespace kvrelay::sim
