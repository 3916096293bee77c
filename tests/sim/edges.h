// The edges that faults are aimed at: a state of a request, and what strikes it there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kvrelay::sim {

// A flow's state (router/generate_flow.h), refined by the calls that are open and by the step of a move.
enum class State {
  kQueued,           // waits for room; nothing is open
  kReserving,        // split: D asked
  kReservingAlone,   // local or without a cache: D asked
  kPrefilling,       // D and P
  kPrefillingAlone,  // P alone: one token is wanted
  kOpeningAttempt,   // D asked to open the next attempt
  kHandedOver,       // D decodes, P has not had its last word
  kDecoding,         // D, whose KV came from P
  kDecodingAlone,    // D, which computed the prompt itself
  kMoveReserving,    // D, and D' is asked
  kMoving,           // D pushes to D'
  kSwitched,         // D' goes on, D has not had its last word
  kFinishing,        // the last words are awaited
};
inline constexpr int kStates = 13;
const char* Name(State state);

enum class Kind {
  kKillDecode,
  kKillPrefill,
  kKillTarget,  // D' of a move
  kKillRouter,
  kSuspendDecode,
  kSuspendPrefill,
  kSuspendTarget,
  kSuspendRouter,
  kHangDecode,  // the compute loop
  kHangPrefill,
  kSlowDecode,
  kSlowPrefill,
  kDrainDecode,
  kDrainPrefill,
  kCutDecode,  // the link between router and worker
  kCutPrefill,
  kCutHandoff,  // the link between the two workers of a transfer
  kSilentDecode,
  kSilentPrefill,
  kSilentHandoff,
  kSlowLinkDecode,
  kSlowLinkPrefill,
  kSlowLinkHandoff,
  kFrameFlipped,
  kFrameRepeated,
  kFrameSwapped,
  kFrameDropped,
  kFrameForeign,
  kCancel,  // the client goes away
  kDoze,    // ... does not read
};
inline constexpr int kKinds = 30;
const char* Name(Kind kind);

// Whether the fault has anything to strike in this state.
bool IsPossible(State state, Kind kind);

struct Edge {
  State state;
  Kind kind;
};
const std::vector<Edge>& PossibleEdges();

// A request's state, and the nodes that serve it; 0 if there is none.
struct Situation {
  State state = State::kFinishing;
  int decode = 0;
  int prefill = 0;
  int target = 0;          // the other decode worker of a move
  std::string handoff_id;  // of the transfer under way or to come
};

using EdgeCounts = std::array<std::array<uint64_t, kKinds>, kStates>;

}  // namespace kvrelay::sim
