#include "prefill_worker/kv_sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_mapping.h"

namespace kvrelay::prefill_worker {

using worker::v1::Handoff;
using worker::v1::KvCommit;

std::shared_ptr<KvSender> KvSender::Start(const Shared& shared, const grpc::CallbackServerContext& parent,
                                          std::shared_ptr<const kv::SequenceCache> cache, int first_position,
                                          int end_position, const Handoff& target, Done done) {
  auto sender =
      std::make_shared<KvSender>(shared, std::move(cache), first_position, end_position, target, std::move(done));
  sender->self_ = sender;
  sender->context_ = grpc::ClientContext::FromCallbackServerContext(parent);
  sender->stub_ = worker::v1::KvService::NewStub(shared.channels->Get(target.kv_address()));
  *sender->request_.mutable_header() = sender->handoff_.Header(target.handoff_id(), target.attempt(), *shared.identity);
  sender->stub_->async()->ReceiveKv(sender->context_.get(), &sender->receipt_, sender.get());
  // Writes are started outside gRPC's reactions; the hold keeps the call from ending under them.
  sender->AddHold();
  sender->StartWrite(&sender->request_);
  sender->StartCall();
  return sender;
}

KvSender::KvSender(const Shared& shared, std::shared_ptr<const kv::SequenceCache> cache, int first_position,
                   int end_position, const Handoff& target, Done done)
    : shared_(shared),
      layers_(cache->layout().layers),
      target_(target),
      handoff_(std::move(cache), first_position, end_position),
      done_(std::move(done)) {}

void KvSender::OnLayer(int layer, int end, bool last_chunk) {
  const std::vector<kv_wire::Piece> pieces = handoff_.OnLayer(layer, end);
  {
    std::lock_guard lock(mutex_);
    layer_ = layer;
    if (last_chunk && layer == layers_ - 1) {
      last_layer_at_ = shared_.clock->Now();
      transfer_.bytes_before_last_layer = transfer_.bytes_written;
    }
    if (closed_ || pieces.empty()) return;
    ready_.insert(ready_.end(), pieces.begin(), pieces.end());
    if (writing_) return;  // the end of that write goes on
  }
  Wake();
}

void KvSender::Commit(KvCommit commit) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    commit_ = std::move(commit);
    if (writing_) return;
  }
  Wake();
}

void KvSender::Wake() {
  shared_.tasks->Run([self = shared_from_this()] { self->WriteNext(); });
}

void KvSender::WriteNext() {
  std::optional<kv_wire::Piece> piece;  // none: the commit
  {
    std::lock_guard lock(mutex_);
    if (closed_ || writing_ || (ready_.empty() && !commit_.has_value())) return;
    writing_ = true;
    if (!ready_.empty()) {
      piece = ready_.front();
      ready_.pop_front();
      if (!first_frame_at_.has_value()) {
        first_frame_at_ = shared_.clock->Now();
        transfer_.first_frame_layer = layer_;
      }
    }
  }
  if (piece.has_value()) {
    WriteFrame(*piece);
  } else {
    WriteCommit();
  }
}

void KvSender::WriteFrame(const kv_wire::Piece& piece) {
  handoff_.BuildFrame(piece, request_.mutable_frame());
  std::lock_guard lock(mutex_);
  if (closed_) return;
  writing_bytes_ = request_.frame().payload().size();
  StartWrite(&request_);
}

void KvSender::WriteCommit() {
  KvCommit commit = handoff_.Commit();
  std::lock_guard lock(mutex_);
  if (closed_) return;
  commit.MergeFrom(*commit_);
  *request_.mutable_commit() = std::move(commit);
  committed_ = true;
  StartWriteLast(&request_, grpc::WriteOptions());
  Close();
}

void KvSender::Close() {
  if (std::exchange(closed_, true)) return;
  ready_.clear();
  RemoveHold();
}

void KvSender::Cancel() {
  {
    std::lock_guard lock(mutex_);
    Close();
  }
  context_->TryCancel();
}

void KvSender::OnWriteDone(bool ok) {
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) return Close();  // the call is over; OnDone tells why
    transfer_.bytes_written += std::exchange(writing_bytes_, 0);
  }
  WriteNext();
}

// The receiver says nothing before its answer, so its first word means that the call is over, also when no write is on
// the way that would tell.
void KvSender::OnReadInitialMetadataDone(bool ok) {
  std::lock_guard lock(mutex_);
  Close();
}

void KvSender::OnDone(const grpc::Status& status) {
  absl::StatusOr<KvTransfer> result = Outcome(status);
  std::exchange(done_, nullptr)(std::move(result));
  self_.reset();
}

absl::StatusOr<KvTransfer> KvSender::Outcome(const grpc::Status& status) const {
  const std::string receiver = absl::StrCat("decode worker ", target_.decode_instance(), " at ", target_.kv_address());
  if (!status.ok()) {
    const absl::Status cause = rpc::FromGrpc(status);
    const char* what = absl::IsUnavailable(cause) ? " cannot be reached: " : ": ";
    return absl::Status(cause.code(), absl::StrCat(receiver, what, cause.message()));
  }
  std::lock_guard lock(mutex_);
  if (!committed_) return absl::InternalError(absl::StrCat(receiver, " answered before the commit"));
  KvTransfer figures = transfer_;
  figures.receipt = receipt_;
  const absl::Duration now = shared_.clock->Now();
  const absl::Duration first = first_frame_at_.value_or(now);
  figures.duration = now - first;
  figures.hidden = std::clamp(last_layer_at_.value_or(now) - first, absl::ZeroDuration(), figures.duration);
  return figures;
}

}  // namespace kvrelay::prefill_worker
