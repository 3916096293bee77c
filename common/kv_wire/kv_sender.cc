#include "common/kv_wire/kv_sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvrelay::kv_wire {

using worker::v1::KvCommit;
using worker::v1::ReceiveKvRequest;
using worker::v1::ReceiveKvResponse;

std::shared_ptr<KvSender> KvSender::Start(const Deps& deps, std::shared_ptr<const kv::SequenceCache> cache,
                                          int first_position, int end_position, KvTarget target, Done done) {
  auto sender = std::make_shared<KvSender>(deps, std::move(cache), first_position, end_position, std::move(target),
                                           std::move(done));
  const KvTarget& to = sender->target_;
  *sender->request_.mutable_header() = sender->handoff_.Header(to.handoff_id, to.attempt, *deps.identity);
  // Locked, for the end may come on another thread before the link is stored.
  std::lock_guard lock(sender->mutex_);
  sender->link_ = deps.transport->Open(to.address, sender);
  sender->link_->Write(sender->request_, /*last=*/false);
  return sender;
}

KvSender::KvSender(const Deps& deps, std::shared_ptr<const kv::SequenceCache> cache, int first_position,
                   int end_position, KvTarget target, Done done)
    : tasks_(deps.tasks),
      budget_(deps.budget),
      clock_(deps.clock),
      layers_(cache->layout().layers),
      target_(std::move(target)),
      handoff_(std::move(cache), first_position, end_position),
      done_(std::move(done)) {}

void KvSender::OnLayer(int layer, int end, bool last_chunk) {
  const std::vector<Piece> pieces = handoff_.OnLayer(layer, end);
  {
    std::lock_guard lock(mutex_);
    layer_ = layer;
    if (last_chunk && layer == layers_ - 1) {
      last_layer_at_ = clock_->Now();
      transfer_.bytes_before_last_layer = transfer_.bytes_written;
    }
  }
  Queue(pieces);
}

void KvSender::OnPositions(int end) {
  std::vector<Piece> pieces;
  for (int layer = 0; layer < layers_; ++layer) {
    const std::vector<Piece> more = handoff_.OnLayer(layer, end);
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  Queue(pieces);
}

void KvSender::Commit(int end, KvCommit commit) {
  handoff_.SetEnd(end);
  OnPositions(end);
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    commit_ = std::move(commit);
    if (writing_) return;
  }
  Wake();
}

void KvSender::Queue(const std::vector<Piece>& pieces) {
  {
    std::lock_guard lock(mutex_);
    if (closed_ || pieces.empty()) return;
    ready_.insert(ready_.end(), pieces.begin(), pieces.end());
    if (writing_) return;  // the end of that write goes on
  }
  Wake();
}

size_t KvSender::backlog() const {
  std::lock_guard lock(mutex_);
  return ready_.size();
}

void KvSender::Wake() {
  tasks_->Run([self = shared_from_this()] { self->WriteNext(); });
}

void KvSender::WriteNext() {
  std::optional<Piece> piece;  // none: the commit
  {
    std::lock_guard lock(mutex_);
    if (closed_ || writing_ || (ready_.empty() && !commit_.has_value())) return;
    writing_ = true;
    if (!ready_.empty()) {
      piece = ready_.front();
      ready_.pop_front();
      frame_ = {.layer = piece->layer,
                .first_position = piece->first_position,
                .end_position = piece->first_position + piece->positions,
                .bytes = 0,
                .began = clock_->Now(),
                .ended = {}};
      if (!first_frame_at_.has_value()) {
        first_frame_at_ = frame_.began;
        transfer_.first_frame_layer = layer_;
      }
    }
  }
  if (!piece.has_value()) return WriteCommit();
  // Weak: a sender that was cancelled while it waits must not keep its cache.
  const uint64_t bytes = handoff_.BytesOf(*piece);
  const auto granted = [weak = weak_from_this(), piece = *piece, bytes, budget = budget_] {
    if (const auto self = weak.lock()) return self->OnGranted(piece);
    budget->Give(bytes);
  };
  if (budget_->Take(bytes, granted)) OnGranted(*piece);
}

void KvSender::OnGranted(const Piece& piece) {
  handoff_.BuildFrame(piece, request_.mutable_frame());
  {
    std::lock_guard lock(mutex_);
    if (!closed_) {
      taken_ = handoff_.BytesOf(piece);
      return link_->Write(request_, /*last=*/false);
    }
  }
  budget_->Give(handoff_.BytesOf(piece));
}

uint64_t KvSender::GiveBack() {
  uint64_t taken;
  {
    std::lock_guard lock(mutex_);
    taken = std::exchange(taken_, 0);
  }
  if (taken > 0) budget_->Give(taken);
  return taken;
}

void KvSender::WriteCommit() {
  KvCommit commit = handoff_.Commit();
  std::lock_guard lock(mutex_);
  if (closed_) return;
  commit.MergeFrom(*commit_);
  *request_.mutable_commit() = std::move(commit);
  committed_ = true;
  closed_ = true;
  link_->Write(request_, /*last=*/true);
}

void KvSender::Cancel() {
  std::shared_ptr<KvLink> link;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    ready_.clear();
    link = link_;
  }
  if (link != nullptr) link->Cancel();
}

void KvSender::OnWritten(bool ok) {
  const uint64_t written = GiveBack();
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) {
      closed_ = true;
      ready_.clear();
      return;
    }
    if (written > 0) NoteWritten(written);
  }
  WriteNext();
}

void KvSender::NoteWritten(uint64_t bytes) {
  transfer_.bytes_written += bytes;
  frame_.bytes = bytes;
  frame_.ended = clock_->Now();
  std::vector<Shipment>& list = transfer_.shipments;
  if (!list.empty() && list.back().layer == frame_.layer && list.back().end_position == frame_.first_position) {
    list.back().end_position = frame_.end_position;
    list.back().bytes += bytes;
    list.back().ended = frame_.ended;
  } else if (list.size() < KvTransfer::kShipmentsMax) {
    list.push_back(frame_);
  }
}

void KvSender::OnLinkEnded(const absl::Status& status, const ReceiveKvResponse& receipt) {
  std::shared_ptr<KvLink> link;  // let go without the lock
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    ready_.clear();
    link = std::move(link_);
  }
  GiveBack();  // of a write whose end was never told
  std::exchange(done_, nullptr)(Outcome(status, receipt));
}

absl::StatusOr<KvTransfer> KvSender::Outcome(const absl::Status& status, const ReceiveKvResponse& receipt) const {
  const std::string receiver = absl::StrCat("decode worker ", target_.instance, " at ", target_.address);
  if (!status.ok()) {
    // UNAVAILABLE would speak of the sender.
    if (absl::IsUnavailable(status))
      return absl::AbortedError(absl::StrCat(receiver, " cannot be reached: ", status.message()));
    // INVALID_ARGUMENT would speak of the request; it was the link, or we, that broke the handoff.
    const auto code = absl::IsInvalidArgument(status) ? absl::StatusCode::kDataLoss : status.code();
    return absl::Status(code, absl::StrCat(receiver, ": ", status.message()));
  }
  std::lock_guard lock(mutex_);
  if (!committed_) return absl::InternalError(absl::StrCat(receiver, " answered before the commit"));
  KvTransfer figures = transfer_;
  figures.receipt = receipt;
  const absl::Duration now = clock_->Now();
  const absl::Duration first = first_frame_at_.value_or(now);
  figures.duration = now - first;
  figures.hidden = std::clamp(last_layer_at_.value_or(now) - first, absl::ZeroDuration(), figures.duration);
  return figures;
}

}  // namespace kvrelay::kv_wire
