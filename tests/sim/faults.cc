#include "tests/sim/faults.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kvrelay::sim {
namespace {

// A move begins at the router's second look at a drain; the stream must last so long.
constexpr int kTokensForMove = 45;
constexpr absl::Duration kPreparedFor = absl::Seconds(2);

bool Moves(State state) {
  return state == State::kMoveReserving || state == State::kMoving || state == State::kSwitched;
}

}  // namespace

void Faults::Aim(const Edge& edge, absl::Duration delay) {
  aimed_.push_back({.edge = edge, .from = world_->Now() + delay});
}

void Faults::OnSituation(RouterCall* request) {
  if (request->ended()) return;
  const Situation now = request->situation();
  for (size_t i = 0; i < aimed_.size(); ++i) {
    Aimed& aimed = aimed_[i];
    if (aimed.struck || aimed.due || world_->Now() < aimed.from) continue;
    if (now.state == aimed.edge.state) {
      StrikeSoon(i, request);
    } else if (world_->Now() - aimed.prepared > kPreparedFor) {
      Prepare(&aimed, request, now);
    }
  }
}

// Not from inside the flow, and often a little later than its step to the state.
void Faults::StrikeSoon(size_t index, RouterCall* request) {
  aimed_[index].due = true;
  const absl::Duration delay =
      world_->Chance(0.5) ? absl::ZeroDuration() : world_->Pick(absl::ZeroDuration(), absl::Milliseconds(8));
  world_->After(delay, nullptr, [this, index, router = request->process()->node(), seed = request->seed()] {
    Aimed& aimed = aimed_[index];
    aimed.due = false;
    RouterCall* found = Find(router, seed);
    if (found == nullptr) return;
    const Situation now = found->situation();
    if (now.state != aimed.edge.state || !Strike(aimed.edge.kind, found, now)) return;
    aimed.struck = true;
  });
}

void Faults::Prepare(Aimed* aimed, RouterCall* request, const Situation& now) {
  static constexpr Kind kBreakers[] = {Kind::kKillPrefill, Kind::kCutPrefill, Kind::kFrameFlipped, Kind::kFrameDropped,
                                       Kind::kFrameForeign};
  const bool decodes = now.state == State::kDecoding || now.state == State::kDecodingAlone;
  if (Moves(aimed->edge.state) && decodes && request->tokens_left() >= kTokensForMove &&
      cluster_->MayStrike(now.decode) && !cluster_->Drains(now.decode)) {
    aimed->prepared = world_->Now();
    PrepareSoon(Kind::kDrainDecode, request, now.state);
  } else if (aimed->edge.state == State::kOpeningAttempt && now.state == State::kPrefilling) {
    aimed->prepared = world_->Now();
    PrepareSoon(kBreakers[world_->Pick(0, 4)], request, now.state);
  }
}

void Faults::PrepareSoon(Kind kind, RouterCall* request, State state) {
  world_->After(absl::ZeroDuration(), nullptr,
                [this, kind, state, router = request->process()->node(), seed = request->seed()] {
                  RouterCall* found = Find(router, seed);
                  if (found == nullptr || found->situation().state != state) return;
                  Strike(kind, found, found->situation());
                });
}

RouterCall* Faults::Find(int router, uint64_t seed) const {
  if (!cluster_->router(router).alive()) return nullptr;
  for (const auto& request : cluster_->router(router).requests()) {
    if (request->seed() == seed && !request->ended()) return request.get();
  }
  return nullptr;
}

bool Faults::Strike(Kind kind, RouterCall* request, const Situation& now) {
  const int router = request->process()->node();
  const auto act = [&]() -> bool {
    switch (kind) {
      case Kind::kKillDecode:
        return StrikeProcess(now.decode, &Cluster::Kill);
      case Kind::kKillPrefill:
        return StrikeProcess(now.prefill, &Cluster::Kill);
      case Kind::kKillTarget:
        return StrikeProcess(now.target, &Cluster::Kill);
      case Kind::kKillRouter:
        return StrikeProcess(router, &Cluster::Kill);
      case Kind::kSuspendDecode:
        return StrikeProcess(now.decode, &Cluster::Suspend);
      case Kind::kSuspendPrefill:
        return StrikeProcess(now.prefill, &Cluster::Suspend);
      case Kind::kSuspendTarget:
        return StrikeProcess(now.target, &Cluster::Suspend);
      case Kind::kSuspendRouter:
        return StrikeProcess(router, &Cluster::Suspend);
      case Kind::kHangDecode:
        return StrikeProcess(now.decode, &Cluster::Hang);
      case Kind::kHangPrefill:
        return StrikeProcess(now.prefill, &Cluster::Hang);
      case Kind::kSlowDecode:
        return StrikeProcess(now.decode, &Cluster::Slow);
      case Kind::kSlowPrefill:
        return StrikeProcess(now.prefill, &Cluster::Slow);
      case Kind::kDrainDecode:
        return !cluster_->Drains(now.decode) && StrikeProcess(now.decode, &Cluster::Drain);
      case Kind::kDrainPrefill:
        return !cluster_->Drains(now.prefill) && StrikeProcess(now.prefill, &Cluster::Drain);
      case Kind::kCutDecode:
        return StrikeLink(router, now.decode, &Cluster::Cut);
      case Kind::kCutPrefill:
        return StrikeLink(router, now.prefill, &Cluster::Cut);
      case Kind::kCutHandoff:
        return StrikeLink(now.decode, now.target != 0 ? now.target : now.prefill, &Cluster::Cut);
      case Kind::kSilentDecode:
        return StrikeLink(router, now.decode, &Cluster::Silence);
      case Kind::kSilentPrefill:
        return StrikeLink(router, now.prefill, &Cluster::Silence);
      case Kind::kSilentHandoff:
        return StrikeLink(now.decode, now.target != 0 ? now.target : now.prefill, &Cluster::Silence);
      case Kind::kSlowLinkDecode:
        return StrikeLink(router, now.decode, &Cluster::Lag);
      case Kind::kSlowLinkPrefill:
        return StrikeLink(router, now.prefill, &Cluster::Lag);
      case Kind::kSlowLinkHandoff:
        return StrikeLink(now.decode, now.target != 0 ? now.target : now.prefill, &Cluster::Lag);
      case Kind::kFrameFlipped:
        return DamageFrame(now, FrameFault::kFlip);
      case Kind::kFrameRepeated:
        return DamageFrame(now, FrameFault::kRepeat);
      case Kind::kFrameSwapped:
        return DamageFrame(now, FrameFault::kSwap);
      case Kind::kFrameDropped:
        return DamageFrame(now, FrameFault::kDrop);
      case Kind::kFrameForeign:
        return DamageFrame(now, FrameFault::kForeign);
      case Kind::kCancel:
        client_->Cancel(request->seed());
        return true;
      case Kind::kDoze:
        client_->Doze(request->seed());
        return true;
    }
    return false;
  };
  world_->Trace("faults", absl::StrCat(Name(kind), " at ", Name(now.state), " of q", request->seed()));
  if (!act()) return false;
  ++counts_[static_cast<int>(now.state)][static_cast<int>(kind)];
  return true;
}

bool Faults::StrikeProcess(int node, void (Cluster::*how)(int)) {
  if (node == 0 || !cluster_->MayStrike(node)) return false;
  (cluster_->*how)(node);
  return true;
}

bool Faults::StrikeLink(int a, int b, void (Cluster::*how)(int, int)) {
  if (a == 0 || b == 0 || !cluster_->network().Sound(a, b)) return false;
  (cluster_->*how)(a, b);
  return true;
}

bool Faults::DamageFrame(const Situation& now, FrameFault fault) {
  if (now.handoff_id.empty()) return false;
  cluster_->observer().frame_faults[now.handoff_id] = fault;
  return true;
}

}  // namespace kvrelay::sim
