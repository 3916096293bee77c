#include "tests/sim/cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/kv_link.h"

namespace kvrelay::sim {
namespace {

constexpr int kDecodeBlocks = 40;
constexpr int kPrefillBlocks = 16;
constexpr absl::Duration kDrainGrace = absl::Seconds(20);
// Without a cache, beside others: such a stream does not move. And time to notice a peer that went.
constexpr absl::Duration kLongestStream = absl::Seconds(18);

}  // namespace

Cluster::Cluster(World* world, std::function<void(RouterCall*)> situation_changed)
    : world_(world), network_(world), observer_(world), situation_changed_(std::move(situation_changed)) {
  for (int node = kEndNode - 1; node >= kFirstRouter; --node) Start(node);
}

// Calls and flows hold one another until they are over; a world that stops in between must let go of them.
Cluster::~Cluster() {
  for (const auto& [node, process] : processes_) Stop(node, absl::InfiniteDuration());
  world_->Clear();
}

void Cluster::Start(int node) {
  std::unique_ptr<Process> process;
  if (IsRouter(node)) {
    std::vector<RouterProcess::Key> workers;
    for (int other = kFirstPrefill; other < kEndNode; ++other)
      workers.emplace_back(IsPrefill(other) ? v1::WORKER_ROLE_PREFILL : v1::WORKER_ROLE_DECODE, AddressOf(other));
    process = std::make_unique<RouterProcess>(&network_, &observer_, absl::StrCat("r", node), node, std::move(workers),
                                              situation_changed_);
  } else if (IsPrefill(node)) {
    process = std::make_unique<PrefillProcess>(&network_, &observer_, absl::StrCat("p", node), node, kPrefillBlocks);
  } else {
    process = std::make_unique<DecodeProcess>(&network_, &observer_, absl::StrCat("d", node), node, kDecodeBlocks);
  }
  processes_[node] = process.get();
  network_.Place(process.get());
  all_.push_back(std::move(process));
  troubled_.erase(node);
  draining_.erase(node);
}

void Cluster::Stop(int node, absl::Duration down) {
  Process* process = processes_[node];
  if (IsRouter(node)) router(node).Bury();
  network_.Kill(process);
  if (!IsRouter(node)) worker(node).engine().Bury();
  if (down < absl::InfiniteDuration()) After(down, [this, node] { Start(node); });
}

bool Cluster::MayStrike(int node) const {
  if (troubled_.contains(node)) return false;
  for (int other = kFirstRouter; other < kEndNode; ++other) {
    const bool same = IsRouter(other) == IsRouter(node) && IsPrefill(other) == IsPrefill(node);
    if (same && other != node && Well(other)) return true;
  }
  return false;
}

void Cluster::Trouble(int node, const char* what) {
  ++strikes_;
  troubled_at_ = world_->Now();
  troubled_.insert(node);
  world_->Trace(processes_[node]->name(), absl::StrCat("FAULT ", what));
}

void Cluster::Recover(int node, absl::Duration delay, std::function<void()> how) {
  After(delay, [this, node, process = processes_[node], how = std::move(how)] {
    if (!Is(node, process)) return;
    how();
    troubled_.erase(node);
    troubled_at_ = world_->Now();
    world_->Trace(process->name(), "recovers");
  });
}

void Cluster::Kill(int node) {
  Trouble(node, "killed");
  Stop(node, world_->Pick(absl::Milliseconds(200), absl::Seconds(3)));
}

void Cluster::Suspend(int node) {
  Trouble(node, "suspended");
  Process* process = processes_[node];
  network_.Suspend(process);
  const absl::Duration duration = world_->Pick(absl::Milliseconds(200), absl::Seconds(world_->Chance(0.5) ? 3 : 20));
  Recover(node, duration, [this, process] { network_.Continue(process); });
}

void Cluster::Hang(int node) {
  Trouble(node, "hung");
  worker(node).engine().Hang(true);
  Recover(node, world_->Pick(absl::Milliseconds(500), absl::Seconds(12)),
          [this, node] { worker(node).engine().Hang(false); });
}

void Cluster::Slow(int node) {
  Trouble(node, "slow");
  worker(node).engine().set_slowness(10);
  Recover(node, world_->Pick(absl::Milliseconds(500), absl::Seconds(5)),
          [this, node] { worker(node).engine().set_slowness(1); });
}

void Cluster::Drain(int node) {
  ++strikes_;
  draining_.insert(node);
  world_->Trace(processes_[node]->name(), "FAULT drains");
  worker(node).Drain();
  WaitForDrain(node, world_->Now() + kDrainGrace);
}

void Cluster::WaitForDrain(int node, absl::Duration until) {
  After(absl::Milliseconds(100), [this, node, until, process = processes_[node]] {
    if (!Is(node, process)) return;
    const bool idle = worker(node).Idle();
    if (!idle && world_->Now() < until) return WaitForDrain(node, until);
    world_->Trace(process->name(), idle ? "drained" : "grace is over");
    const bool calm = troubled_.empty() && links_troubled_ == 0 && world_->Now() - troubled_at_ > kLongestStream;
    if (!idle && calm) observer_.Violation("drain", process->name() + ": streams that neither moved nor ended");
    Stop(node, absl::Milliseconds(500));
  });
}

void Cluster::LinkTrouble(int a, int b, const char* what, absl::Duration duration, std::function<void()> end) {
  ++strikes_;
  ++links_troubled_;
  troubled_at_ = world_->Now();
  world_->Trace(absl::StrCat(a, "-", b), absl::StrCat("FAULT link ", what));
  After(duration, [this, a, b, end = std::move(end)] {
    --links_troubled_;
    troubled_at_ = world_->Now();
    end();
    world_->Trace(absl::StrCat(a, "-", b), "link heals");
  });
}

void Cluster::Cut(int a, int b) {
  network_.Cut(a, b);
  Heals(a, b, "cut", world_->Pick(absl::Milliseconds(100), absl::Seconds(8)));
}

void Cluster::Silence(int a, int b) {
  network_.Silence(a, b);
  Heals(a, b, "silent", world_->Pick(absl::Milliseconds(200), absl::Seconds(20)));
}

void Cluster::Lag(int a, int b) {
  network_.Slow(a, b);
  Heals(a, b, "slow", world_->Pick(absl::Milliseconds(500), absl::Seconds(5)));
}

void Cluster::Doze(const std::shared_ptr<Call>& call) {
  call->Doze();
  // Half of the longest is more than a router waits for.
  LinkTrouble(call->client()->node(), call->server()->node(), "unread",
              world_->Pick(absl::Milliseconds(100), absl::Seconds(5)), [call] { call->Wake(); });
}

bool Cluster::AllReady() {
  for (int node = kFirstRouter; node < kFirstPrefill; ++node) {
    for (const router::Worker& worker : router(node).Snapshot()) {
      if (!worker.ready) return false;
    }
  }
  return true;
}

void Cluster::CheckNothingLeft() {
  const auto left = [this](int node, const char* check, size_t count) {
    if (count > 0) observer_.Violation(check, absl::StrCat(processes_[node]->name(), ": ", count));
  };
  for (int node = kFirstPrefill; node < kEndNode; ++node) {
    left(node, "referenced blocks left", worker(node).engine().blocks_referenced());
    left(node, "reservations left", worker(node).reservations());
    left(node, "sessions left", worker(node).engine().sessions());
    left(node, "live calls left", worker(node).Idle() ? 0 : 1);
  }
  for (int node = kFirstRouter; node < kFirstPrefill; ++node) {
    left(node, "flows left", router(node).live());
    for (const router::Worker& worker : router(node).Snapshot()) left(node, "calls counted", worker.calls);
  }
  // Each router watches each worker.
  const size_t open = network_.Open().size();
  if (open != kRouters * (kPrefills + kDecodes)) observer_.Violation("calls left", absl::StrCat(open));
}

}  // namespace kvrelay::sim
