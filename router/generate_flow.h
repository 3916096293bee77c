// The life of one request, as a state machine without gRPC: events come in by methods, commands go out through small
// interfaces, time comes from a Clock. So the same code runs behind the service, under fakes, and in a simulator.
//
// States, and what leads out of them (D: the decode call, P: the prefill call):
//
//   kQueued          Waits for its turn, or for room on a worker (generate_flow_queue.cc); nothing is open.
//                      placed -> kReserving, or kPrefilling without D; too long -> RESOURCE_EXHAUSTED
//   kReserving       D is open, Reserve sent.
//                      Reserved -> kPrefilling (split: P is opened) or kDecoding (local, no cache)
//   kPrefilling      P is open (attempt n). Token 0 may come from P, from D, or from both, in any order.
//                      first token or commit on D, or PrefillDone -> kDecoding; P fails -> kOpeningAttempt
//   kOpeningAttempt  P is closed, Attempt n+1 sent to D.
//                      AttemptOpen -> kPrefilling; Committed or a token on D -> kDecoding
//   kDecoding        D holds the KV of all but the last token and sends tokens. P may still be open for its last word;
//                    its failure means nothing now. The stream may move to another D (generate_flow_move.cc).
//   kFinishing       The last token was forwarded. Waits for the workers' last words: Ended from D, PrefillDone from P.
//                    Failures mean nothing now, and after `finish_timeout` the words are done without.
//   kDone            The sink has seen its End.
//
// When one token is wanted and the execution is split, there is no D: kPrefilling -> kFinishing.
//
// What may go wrong on the way (generate_flow_failures.cc):
//   refusals        every other worker once, but at most `refusals_max` that have no room (RESOURCE_EXHAUSTED); then
//                   back to kQueued if there was one such, else the refusal's code
//   P fails         attempt n+1 on another prefill worker (the same one if it is the only one and answered with
//                   something else than UNAVAILABLE; ABORTED is a transfer that broke, whoever's fault that was), at
//                   most `attempts_max` in a row; after two failures also on another decode worker if there is one, for
//                   the link may be cut. No prefill worker left: UNAVAILABLE if split was asked for, else local
//   D fails         re-plan: prompt and tokens so far go to another decode worker, at most `replans_max` times in
//                   a row. A token that a decode worker selects starts both counts anew
//   not repeatable  INTERNAL, INVALID_ARGUMENT, UNIMPLEMENTED, OUT_OF_RANGE: computed again it would come out the same,
//                   so the request ends with it
//   slow client     from `unread_pause` messages that wait for the client on D is held, until all but `unread_resume`
//                   are taken; none taken within `unread_timeout`: RESOURCE_EXHAUSTED
//   silence         a call that gives no sign of life for `life_timeout`, or whose worker the directory calls lost, has
//                   failed with UNAVAILABLE
//   broken promises of a worker (order, identity, accounting): INTERNAL. The same token computed twice differently:
//                   DATA_LOSS
//
// Not thread-safe: the owner calls one method at a time. Methods of WorkerCalls and FlowSink are called from inside;
// they must not call back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "router/admission.h"
#include "router/decode_client.h"
#include "router/flow_output.h"
#include "router/own_pauses.h"
#include "router/placement.h"
#include "router/placement_memory.h"
#include "router/prefill_client.h"
#include "router/request_accounting.h"

namespace kvrelay::router {

// Names a call of a flow, so that late events of a given-up call can be told from those of its successor. From 1; never
// reused.
using CallId = uint64_t;

// Opens calls whose events reach the flow's On... methods under the given id. Destroying the handle cancels.
class WorkerCalls {
 public:
  virtual ~WorkerCalls() = default;
  virtual std::unique_ptr<DecodeCall> OpenDecode(CallId id, const Worker& worker) = 0;
  virtual std::unique_ptr<PrefillCall> OpenPrefill(CallId id, const Worker& worker,
                                                   const wire::PrefillRequest& request) = 0;
};

struct FlowLimits {
  uint32_t attempts_max = 3;  // in a row, as replans_max
  uint32_t replans_max = 3;
  uint32_t refusals_max = 8;  // for want of room, before it waits
  absl::Duration life_timeout = absl::Seconds(5);
  absl::Duration finish_timeout = absl::Seconds(5);
  absl::Duration move_retry = absl::Seconds(1);  // after a move that failed
  absl::Duration queue_timeout = absl::Seconds(30);
  absl::Duration queue_retry = absl::Milliseconds(200);  // after a refusal, unless woken before
  size_t unread_pause = 256;
  size_t unread_resume = 64;
  absl::Duration unread_timeout = absl::Seconds(60);
};

// What a flow works with. All pointers must outlive it.
struct FlowDeps {
  const Clock* clock;
  WorkerDirectory* workers;
  WorkerCalls* calls;
  FlowSink* sink;
  AdmissionQueue* admission;
  PlacementMemory* memory;
  std::function<void()> wake;  // brings about OnWake; may be called on any thread until the flow's end, and after it
  TokenBytes token_bytes;
  uint32_t vocabulary_size;
  std::function<std::string()> new_handoff_id;  // 16 bytes that nobody can guess
  FlowLimits limits;
};

enum class FlowState { kQueued, kReserving, kPrefilling, kOpeningAttempt, kDecoding, kFinishing, kDone };

class GenerateFlow {
 public:
  GenerateFlow(FlowRequest request, FlowDeps deps);
  GenerateFlow(const GenerateFlow&) = delete;

  // Places the request and opens the first call. REQUIRES: called once, before all others.
  void Start();

  void OnDecode(CallId id, const wire::DecodeResponse& response);
  void OnDecodeEnd(CallId id, const absl::Status& status);
  void OnPrefill(CallId id, const wire::PrefillResponse& response);
  void OnPrefillEnd(CallId id, const absl::Status& status);
  // There may be room.
  void OnWake();
  // Looks at the clock. To be called a few times per second; a pause between calls counts as this process's own, not as
  // silence of the workers.
  void OnTick();
  // The client went away (CANCELLED), or another reason outside to end at once.
  void Abort(const absl::Status& status);

  FlowState state() const { return state_; }

 private:
  // What both kinds of call have in common.
  struct Call {
    CallId id = 0;  // 0: no call
    Worker worker;
    int entry = -1;           // in accounting_
    absl::Duration opened;    // after the request's arrival
    absl::Duration life;      // last sign of life, on the clock
    uint64_t beat = 0;        // last beat heard
    bool beats = false;       // the worker sends signs of life on this call
    uint32_t next_index = 0;  // next token expected on this call
  };

  // The queue, in generate_flow_queue.cc.
  void EnterQueue(v1::Execution execution);
  void TryPlace();
  // All workers that could take the request are full.
  void WaitForRoom(v1::Execution execution, const absl::Status& refusal);
  void LeaveQueue();

  // Plans.
  void OpenPlan(Plan plan);
  void OpenDecode();
  void OpenPrefill();
  // The request with its first `count` tokens.
  wire::GenerationSpec SpecWith(uint32_t count) const;
  uint32_t tokens_left() const { return request_.spec.max_tokens() - static_cast<uint32_t>(tokens_.size()); }
  uint32_t plan_length() const { return request_.spec.prompt_length() + plan_first_; }
  PlacementRequest Wanted(v1::Execution execution);
  absl::StatusOr<Plan> PlaceNow(v1::Execution execution, const AvoidedWorkers& avoided);
  // The blocks of prompt and tokens so far.
  const BlockChain& Chain();
  // The worker holds the first `positions` of them, which later placements shall know.
  void Learn(const Worker& worker, uint32_t positions);
  void InitCall(Call* call, const Worker& worker, bool cached, uint32_t next_index);

  // Events of the decode call.
  void OnDecodeEvent(const wire::DecodeResponse& response);
  void OnReserved(const wire::Reserved& reserved);
  // UNAVAILABLE if it is not who was asked.
  static absl::Status CheckIdentity(const Call& call, const wire::WorkerIdentity& found);
  void OnAttemptOpen(const wire::AttemptOpen& open);
  void OnCommitted(const wire::Committed& committed);
  void OnPublished();
  void OnDecodeSelected(Call* call, const wire::Selected& selected);
  void OnEnded(const wire::Ended& ended);
  // Events of the prefill call.
  void OnProgress(const wire::PrefillProgress& progress);
  void OnPrefillSelected(const wire::Selected& selected);
  void OnPrefillDone(const wire::PrefillDone& done);

  // A token that was checked against its call: forwards it, drops it, or compares it with the one known.
  void TakeToken(const Call& call, const wire::Selected& selected);
  v1::RunTrace TraceOf(const Call& call, const wire::Selected& selected) const;
  // What the prefill worker wrote when, counted from the request's arrival.
  std::vector<v1::Shipment> ShipmentsOf(const wire::PrefillDone& done) const;
  bool CheckSelected(Call* call, const wire::Selected& selected);
  void Accepted();
  void EnterFinishing();
  void SendFinishIfDue();
  void TryFinish();

  // Holds the stream of a client that does not keep up, in generate_flow_client.cc.
  void MindClient();
  // Tells the decode call.
  void SendHold();

  // A live move, in generate_flow_move.cc.
  void MoveIfDraining();
  void SendMoveTo(const wire::Reserved& reserved);
  void OnOtherEvent(const wire::DecodeResponse& response);
  void OnOtherEnded(const wire::Ended& ended);
  void OnOtherFailed(const absl::Status& status);
  void OnSourceMoved(const wire::Ended& ended);
  // The target goes on with the stream, the source is let go.
  void SwitchToTarget();
  // The source goes on; the target is let go.
  void AbandonMove(const absl::Status& cause);
  void CloseOther(bool drop);

  // Failures, in generate_flow_failures.cc.
  void PrefillFailed(const absl::Status& status);
  void RetryPrefill(const absl::Status& cause);
  bool TryOtherDecodeWorker();
  // False if there were too many in a row.
  bool CountReplan();
  void DecodeFailed(const absl::Status& status);
  // Places the rest of the request anew.
  void Replan(v1::Execution execution, const absl::Status& cause);
  // Close a call. `drop`: its work was not done, what it had is gone.
  void ClosePrefill(bool drop);
  void CloseDecode(bool drop);
  void Broken(const Call& call, absl::string_view what);
  void End(const absl::Status& status);
  // Marks a sign of life.
  void Alive(Call* call, uint64_t beat);
  // UNAVAILABLE if the call must be given up.
  absl::Status CheckLife(const Call& call, bool beats_due) const;

  const FlowRequest request_;
  const FlowDeps deps_;
  FlowState state_ = FlowState::kQueued;
  RequestAccounting accounting_;
  FlowOutput output_;

  // Tokens selected, `resumed` ones included; dropped ones too.
  std::vector<uint32_t> tokens_;
  BlockChain chain_;  // of Chain()
  // Set with the last token that is forwarded.
  bool text_ended_ = false;
  wire::EndReason end_reason_ = wire::END_REASON_UNSPECIFIED;  // unspecified with text_ended_: a stop string

  AdmissionQueue::Ticket ticket_ = 0;  // while it waits for a worker to take it
  v1::Execution queued_execution_ = v1::EXECUTION_UNSPECIFIED;
  absl::Duration queued_since_, retry_at_;  // on the clock
  absl::Status full_;                       // the last refusal

  Plan plan_;
  std::string numerics_id_;  // of the first plan; later plans keep to it
  AvoidedWorkers avoided_;
  uint32_t plan_first_ = 0;  // index of the first token of this plan
  std::string handoff_id_;
  std::string kv_address_;
  uint32_t positions_held_ = 0;
  bool reserved_ = false;   // D has answered Reserve
  bool published_ = false;  // D holds the KV of this plan's prompt
  bool finish_sent_ = false;
  uint32_t attempt_ = 0;   // within this plan
  uint32_t attempts_ = 0;  // within the request: prompt computations started
  uint32_t replans_ = 0;
  // Without a new token of a decode worker in between.
  uint32_t attempts_in_row_ = 0;
  uint32_t replans_in_row_ = 0;
  uint64_t kv_bytes_shipped_ = 0;
  uint32_t cached_ = 0;
  absl::Duration finishing_since_;

  // Of a client that does not keep up.
  bool client_behind_ = false;
  size_t unread_ = 0;            // at the last look
  absl::Duration unread_since_;  // when it fell last, on the clock

  OwnPauses pauses_;
  CallId last_call_ = 0;
  Call decode_;
  Call prefill_;
  std::unique_ptr<DecodeCall> decode_call_;
  std::unique_ptr<PrefillCall> prefill_call_;

  // The other decode call of a move: the target until it has sent a token, then the source until its last word.
  enum class MoveStep { kNone, kReserving, kMoving, kSwitched };
  MoveStep move_step_ = MoveStep::kNone;
  Call other_;
  std::unique_ptr<DecodeCall> other_call_;
  std::string move_handoff_id_;
  absl::Duration move_at_;  // not before, on the clock
  uint32_t moves_ = 0;
  bool move_asked_ = false;  // of decode_: MoveTo was sent
};

}  // namespace kvrelay::router
