// How DecodeFlow gives its stream to another decode worker. The steps are DecodeMove's; here they meet the engine, the
// link and the router.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/engine/validate.h"
#include "common/observability/log.h"
#include "common/worker/convert.h"
#include "common/worker/spec.h"
#include "decode_worker/decode_flow.h"

namespace kvrelay::decode_worker {

using kv_wire::KvSender;
using kv_wire::KvTransfer;

absl::Status DecodeFlow::OnMoveTo(const worker::v1::MoveTo& to, kv_wire::KvTransport* transport) {
  KV_RETURN_IF_ERROR(worker::CheckHandoffId(to.handoff_id()));
  KV_RETURN_IF_ERROR(worker::CheckKvTarget(to.kv_address(), to.decode_instance()));
  std::shared_ptr<DecodeMove> given_up;  // the router has let go of its target; let go without the lock
  std::lock_guard lock(mutex_);
  if (phase_ == Phase::kEnded) return absl::OkStatus();  // ended meanwhile; the end says so
  if (phase_ != Phase::kRunning) return absl::InvalidArgumentError("MoveTo needs a stream that runs");
  const engine::SessionSpec& spec = held_.session->spec();
  const int end = engine::PositionsNeeded(spec);
  if (spec.source == engine::KvSource::kNoCache || to.tokens() < spec.tokens.size() ||
      to.tokens() > static_cast<uint32_t>(end) || to.positions_held() >= to.tokens())
    return absl::InvalidArgumentError(absl::StrCat("MoveTo with ", to.tokens(), " tokens and ", to.positions_held(),
                                                   " positions held does not fit a stream of ", spec.tokens.size(),
                                                   " to ", end, " positions with a cache"));
  given_up = std::exchange(move_, nullptr);
  if (given_up != nullptr) given_up->sender()->Cancel();
  // The link may end before this returns, on another thread: it then waits for the lock.
  auto sender = KvSender::Start(
      {.transport = transport,
       .tasks = context_.tasks,
       .budget = context_.kv_in_flight,
       .clock = context_.clock,
       .identity = &context_.identity},
      held_.session->cache(), static_cast<int>(to.positions_held()), end,
      {.handoff_id = to.handoff_id(), .attempt = 1, .address = to.kv_address(), .instance = to.decode_instance()},
      [flow = shared_from_this(), number = ++moves_](absl::StatusOr<KvTransfer> transfer) {
        flow->OnMoveEnded(number, std::move(transfer));
      });
  move_ = std::make_shared<DecodeMove>(std::move(sender), to.tokens(), held_.session->cache());
  HoldOrResume();
  return absl::OkStatus();
}

void DecodeFlow::OnHeld() {
  std::shared_ptr<DecodeMove> move;
  std::shared_ptr<engine::Session> session;
  absl::StatusOr<worker::v1::KvCommit> commit;
  uint32_t number = 0;
  {
    std::lock_guard lock(mutex_);
    // Else the pause is the reader's, or of a move that is over.
    if (phase_ != Phase::kRunning || move_ == nullptr || !move_->pauses() || move_->committed()) return;
    session = held_.session;
    move = move_;
    number = moves_;
    commit = move->Commit(recent_, session->spec().prompt_length, worker::ToProto(counts_));
  }
  if (!commit.ok()) {
    OnMoveEnded(number, commit.status());
    move->sender()->Cancel();  // after this end, whose reason says more
    return;
  }
  move->sender()->Commit(session->cache()->kv_ready(), *std::move(commit));
}

void DecodeFlow::OnMoveEnded(uint32_t number, absl::StatusOr<KvTransfer> transfer) {
  std::shared_ptr<DecodeMove> move;
  engine::PositionCounts counts;
  const bool moved = transfer.ok() && !transfer->receipt.duplicate();
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kRunning || number != moves_ || move_ == nullptr) return;
    move = std::exchange(move_, nullptr);
    counts = counts_;
    if (!moved) HoldOrResume();
  }
  if (moved) {
    counts.shipped += transfer->receipt.received();
    worker::v1::Moved done;
    done.set_positions(transfer->receipt.received());
    done.set_selected(move->selected());
    return EndWith(worker::v1::END_REASON_MOVED, counts, done);
  }
  const absl::Status cause =
      transfer.ok() ? absl::AbortedError("the target has the KV of another attempt") : transfer.status();
  observability::LogWarning(
      "move_failed", {{"code", absl::StatusCodeToString(cause.code())}, {"message", std::string(cause.message())}});
  DecodeResponse response;
  response.mutable_move_failed()->set_code(static_cast<int>(cause.code()));
  response.mutable_move_failed()->set_message(std::string(cause.message()));
  sink_->Send(std::move(response));
}

}  // namespace kvrelay::decode_worker
