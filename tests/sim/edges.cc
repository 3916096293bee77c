#include "tests/sim/edges.h"

namespace kvrelay::sim {

const char* Name(State state) {
  static constexpr const char* kNames[kStates] = {
      "queued",          "reserving",   "reserving-alone", "prefilling",     "prefilling-alone",
      "opening-attempt", "handed-over", "decoding",        "decoding-alone", "move-reserving",
      "moving",          "switched",    "finishing"};
  return kNames[static_cast<int>(state)];
}

const char* Name(Kind kind) {
  static constexpr const char* kNames[kKinds] = {
      "kill D", "kill P",     "kill D'",    "kill R",    "stop D",  "stop P",  "stop D'", "stop R",
      "hang D", "hang P",     "slow D",     "slow P",    "drain D", "drain P", "cut R-D", "cut R-P",
      "cut KV", "silent R-D", "silent R-P", "silent KV", "lag R-D", "lag R-P", "lag KV",  "flip",
      "repeat", "swap",       "drop",       "foreign",   "cancel",  "doze"};
  return kNames[static_cast<int>(kind)];
}

bool IsPossible(State state, Kind kind) {
  if (state == State::kQueued)
    return kind == Kind::kKillRouter || kind == Kind::kSuspendRouter || kind == Kind::kCancel;
  const bool has_decode = state != State::kPrefillingAlone;
  const bool has_prefill =
      state == State::kPrefilling || state == State::kPrefillingAlone || state == State::kHandedOver;
  const bool moves = state == State::kMoveReserving || state == State::kMoving || state == State::kSwitched;
  // A frame may still come: before the receipt.
  const bool ships = state == State::kPrefilling || state == State::kMoving;
  const bool linked = ships || state == State::kHandedOver || state == State::kMoveReserving;
  switch (kind) {
    case Kind::kKillDecode:
    case Kind::kSuspendDecode:
    case Kind::kHangDecode:
    case Kind::kSlowDecode:
    case Kind::kDrainDecode:
    case Kind::kCutDecode:
    case Kind::kSilentDecode:
    case Kind::kSlowLinkDecode:
      // A move begins with a drain, and a worker does not drain twice.
      return has_decode && !(moves && kind == Kind::kDrainDecode);
    case Kind::kKillPrefill:
    case Kind::kSuspendPrefill:
    case Kind::kHangPrefill:
    case Kind::kSlowPrefill:
    case Kind::kDrainPrefill:
    case Kind::kCutPrefill:
    case Kind::kSilentPrefill:
    case Kind::kSlowLinkPrefill:
      return has_prefill;
    case Kind::kKillTarget:
    case Kind::kSuspendTarget:
      return moves;
    case Kind::kCutHandoff:
    case Kind::kSilentHandoff:
    case Kind::kSlowLinkHandoff:
      return linked;
    case Kind::kFrameFlipped:
    case Kind::kFrameRepeated:
    case Kind::kFrameSwapped:
    case Kind::kFrameDropped:
    case Kind::kFrameForeign:
      return ships;
    case Kind::kKillRouter:
    case Kind::kSuspendRouter:
    case Kind::kCancel:
    case Kind::kDoze:
      return true;
  }
  return false;
}

const std::vector<Edge>& PossibleEdges() {
  static const std::vector<Edge> edges = [] {
    std::vector<Edge> possible;
    for (int state = 0; state < kStates; ++state) {
      for (int kind = 0; kind < kKinds; ++kind) {
        const Edge edge{static_cast<State>(state), static_cast<Kind>(kind)};
        if (IsPossible(edge.state, edge.kind)) possible.push_back(edge);
      }
    }
    return possible;
  }();
  return edges;
}

}  // namespace kvrelay::sim
