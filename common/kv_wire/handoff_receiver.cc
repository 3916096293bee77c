#include "common/kv_wire/handoff_receiver.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/planted_bug.h"
#include "common/base/status_macros.h"
#include "common/kv_wire/frame.h"

namespace kvrelay::kv_wire {
namespace {

using kv::kBlockPositions;
using worker::v1::KvCommit;
using worker::v1::KvFrame;
using worker::v1::KvHeader;

absl::Status CheckEqual(std::string_view field, uint64_t theirs, uint64_t ours) {
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the handoff's ", absl::string_view(field.data(), field.size()),
                                                    " is ", theirs, ", ours is ", ours));
}

absl::Status CheckEqual(std::string_view field, const std::string& theirs, const std::string& ours) {
  if (theirs == ours) return absl::OkStatus();
  // Whatever a peer sent is quoted escaped and in part only.
  return absl::FailedPreconditionError(absl::StrCat("the handoff's ", absl::string_view(field.data(), field.size()),
                                                    " is \"", absl::CHexEscape(theirs.substr(0, 80)), "\", ours is \"",
                                                    ours, "\""));
}

absl::Status CheckLayout(const worker::v1::KvLayout& theirs, const worker::v1::KvLayout& ours) {
  KV_RETURN_IF_ERROR(CheckEqual("payload version", theirs.version(), ours.version()));
  KV_RETURN_IF_ERROR(CheckEqual("number of layers", theirs.layers(), ours.layers()));
  KV_RETURN_IF_ERROR(CheckEqual("number of KV heads", theirs.kv_heads(), ours.kv_heads()));
  KV_RETURN_IF_ERROR(CheckEqual("head dimension", theirs.head_dim(), ours.head_dim()));
  KV_RETURN_IF_ERROR(CheckEqual("block size", theirs.block_positions(), ours.block_positions()));
  return CheckEqual("cache type", theirs.type(), ours.type());
}

absl::Status CommitError(std::string_view what, uint64_t theirs, uint64_t ours) {
  return absl::DataLossError(absl::StrCat("the commit's ", absl::string_view(what.data(), what.size()), " is ", theirs,
                                          ", what was received makes it ", ours));
}

std::string Name(const KvFrame& frame) {
  return absl::StrCat("frame of layer ", frame.layer(), ", positions ", frame.first_position(), "+", frame.positions());
}

}  // namespace

HandoffReceiver::HandoffReceiver(std::shared_ptr<kv::SequenceCache> cache, HandoffExpectation expectation,
                                 const Clock* clock)
    : cache_(std::move(cache)), expected_(std::move(expectation)), clock_(clock) {
  KV_CHECK(expected_.first_position == cache_->kv_ready(), "a handoff continues what the cache holds");
  KV_CHECK(expected_.first_position < expected_.tokens && expected_.tokens <= expected_.max_end_position &&
               expected_.max_end_position <= cache_->capacity(),
           "a handoff's range is inside its reservation");
  KV_CHECK(expected_.ends_request != nullptr, "the end rule is known");
}

absl::StatusOr<uint32_t> HandoffReceiver::OpenAttempt(uint32_t attempt, std::string sender_instance) {
  std::lock_guard lock(mutex_);
  if (ended_) return absl::AbortedError("the reservation has ended");
  if (published_) return published_->winner;
  if (attempt == 0 || attempt - 1 != attempt_)
    return absl::InvalidArgumentError(absl::StrCat("attempt ", attempt, " does not follow attempt ", attempt_));
  attempt_ = attempt;
  sender_instance_ = std::move(sender_instance);
  transfer_.reset();
  state_ = State::kOpen;
  return 0;
}

absl::Status HandoffReceiver::OnHeader(const KvHeader& header) {
  std::lock_guard lock(mutex_);
  if (header.handoff_id() != expected_.handoff_id) return absl::NotFoundError("no reservation has this handoff id");
  KV_RETURN_IF_ERROR(CheckAttempt(header.attempt()));
  if (published_) return absl::OkStatus();
  if (header.sender().instance() != sender_instance_)
    return absl::AbortedError(absl::StrCat("attempt ", attempt_, " belongs to another sender"));
  if (state_ != State::kOpen)
    return absl::AbortedError(
        absl::StrCat("attempt ", attempt_, state_ == State::kReceiving ? " is receiving already" : " has failed"));
  if (absl::Status status = CheckHeader(header); !status.ok()) return Fail(std::move(status));
  const int end = static_cast<int>(header.end_position());
  transfer_.emplace(cache_->layout().layers, end, BlockIndex(end - 1) + 1);
  state_ = State::kReceiving;
  return absl::OkStatus();
}

absl::Status HandoffReceiver::OnFrame(uint32_t attempt, const KvFrame& frame) {
  // The costly checks need no lock: they look at the frame and at constants only.
  const absl::Duration arrival = clock_->Now();
  absl::Status status = CheckContent(frame);
  const Digest digest = status.ok() ? DigestOf(PayloadOf(frame)) : Digest{};

  std::lock_guard lock(mutex_);
  KV_RETURN_IF_ERROR(CheckAttempt(attempt));
  if (published_) return absl::OkStatus();
  if (state_ == State::kFailed) return absl::AbortedError(absl::StrCat("attempt ", attempt, " has failed"));
  if (state_ != State::kReceiving) return Fail(absl::InvalidArgumentError("a frame came before the header"));
  if (status.ok()) status = CheckPlace(frame);
  if (!status.ok()) return Fail(std::move(status));

  // Written under the lock, so that no write is under way once an attempt is closed.
  const int layer = static_cast<int>(frame.layer());
  const int first = static_cast<int>(frame.first_position());
  const int positions = static_cast<int>(frame.positions());
  cache_->CopyIn(layer, first, positions, PayloadOf(frame));
  transfer_->digest.Add(layer, BlockIndex(first), digest);
  transfer_->positions[BlockIndex(first)] = positions;
  if (!transfer_->first_frame) transfer_->first_frame = arrival;
  return absl::OkStatus();
}

absl::StatusOr<HandoffReceipt> HandoffReceiver::OnCommit(uint32_t attempt, const KvCommit& commit) {
  std::lock_guard lock(mutex_);
  KV_RETURN_IF_ERROR(CheckAttempt(attempt));
  if (published_) {
    HandoffReceipt receipt = *published_;
    receipt.duplicate = true;
    return receipt;
  }
  if (state_ == State::kFailed) return absl::AbortedError(absl::StrCat("attempt ", attempt, " has failed"));
  if (state_ != State::kReceiving) return Fail(absl::InvalidArgumentError("the commit came before the header"));
  if (absl::Status status = CheckCommit(commit); !status.ok()) return Fail(std::move(status));

  const int end = static_cast<int>(commit.end_position());
  const int received = end - expected_.first_position;
  KV_CHECK(cache_->kv_ready() == expected_.first_position, "nobody else publishes before the commit");
  cache_->Publish(received);
  published_ = HandoffReceipt{.winner = attempt,
                              .duplicate = false,
                              .received = static_cast<uint32_t>(received),
                              .payload_bytes = PayloadBytes(cache_->layout(), expected_.first_position, end),
                              .duration = clock_->Now() - *transfer_->first_frame};
  transfer_.reset();
  state_ = State::kClosed;
  return *published_;
}

void HandoffReceiver::Close() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  transfer_.reset();
  state_ = State::kClosed;
}

std::optional<HandoffReceipt> HandoffReceiver::published() const {
  std::lock_guard lock(mutex_);
  return published_;
}

int HandoffReceiver::BlockIndex(int position) const {
  return position / kBlockPositions - expected_.first_position / kBlockPositions;
}

absl::Status HandoffReceiver::CheckAttempt(uint32_t attempt) const {
  if (ended_) return absl::AbortedError("the reservation has ended");
  // A late stream of an earlier attempt is told the winner, as long as there is one.
  const bool known = published_ ? attempt >= 1 && attempt <= attempt_ : attempt == attempt_ && attempt_ != 0;
  if (known || (KV_PLANTED(no_fence) && attempt >= 1 && attempt <= attempt_)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("attempt ", attempt, " is not open; attempt ", attempt_, " is the last one"));
}

absl::Status HandoffReceiver::CheckHeader(const KvHeader& header) const {
  KV_RETURN_IF_ERROR(CheckEqual("model fingerprint", header.sender().model_fingerprint(), expected_.model_fingerprint));
  KV_RETURN_IF_ERROR(CheckEqual("numerics id", header.sender().numerics_id(), expected_.numerics_id));
  KV_RETURN_IF_ERROR(CheckLayout(header.layout(), LayoutToProto(cache_->layout())));
  KV_RETURN_IF_ERROR(CheckEqual("first position", header.first_position(), expected_.first_position));
  const uint32_t end = header.end_position();
  if (end < static_cast<uint32_t>(expected_.tokens) || end > static_cast<uint32_t>(expected_.max_end_position))
    return absl::FailedPreconditionError(absl::StrCat("the handoff's end position is ", end,
                                                      ", the reservation allows ", expected_.tokens, " to ",
                                                      expected_.max_end_position));
  return CheckEqual("payload size", header.payload_bytes(),
                    PayloadBytes(cache_->layout(), expected_.first_position, static_cast<int>(end)));
}

absl::Status HandoffReceiver::CheckContent(const KvFrame& frame) const {
  const kv::KvLayout& layout = cache_->layout();
  if (frame.layer() >= static_cast<uint32_t>(layout.layers))
    return absl::InvalidArgumentError(absl::StrCat(Name(frame), ": the model has ", layout.layers, " layers"));
  if (frame.positions() < 1 || frame.positions() > static_cast<uint32_t>(kBlockPositions))
    return absl::InvalidArgumentError(
        absl::StrCat(Name(frame), ": a frame holds 1 to ", kBlockPositions, " positions"));
  if (frame.payload().size() != frame.positions() * layout.PositionBytes())
    return absl::InvalidArgumentError(absl::StrCat(Name(frame), ": the payload has ", frame.payload().size(),
                                                   " bytes instead of ", frame.positions() * layout.PositionBytes()));
  if (FrameCrc32c(frame) != frame.crc32c() && !KV_PLANTED(no_digest_check))
    return absl::DataLossError(absl::StrCat(Name(frame), ": the checksum differs; the frame was damaged"));
  if (!AllFinite(layout, PayloadOf(frame)))
    return absl::DataLossError(absl::StrCat(Name(frame), ": a key or value is not finite"));
  return absl::OkStatus();
}

absl::Status HandoffReceiver::CheckPlace(const KvFrame& frame) const {
  const uint64_t first = frame.first_position();
  const uint64_t end = first + frame.positions();
  const uint64_t range_first = expected_.first_position;
  if (first < range_first || end > static_cast<uint64_t>(transfer_->end_position))
    return absl::InvalidArgumentError(
        absl::StrCat(Name(frame), ": outside the header's range ", range_first, " to ", transfer_->end_position));
  // One frame per layer and block: it starts where the block, or the range, does. Whether it is long enough shows in
  // the commit, which has the final end.
  const uint64_t block_first = first / kBlockPositions * kBlockPositions;
  if (first != std::max(block_first, range_first) || end > block_first + kBlockPositions)
    return absl::InvalidArgumentError(absl::StrCat(Name(frame), ": not the part of one block that the range covers"));
  const int block = BlockIndex(static_cast<int>(first));
  if (transfer_->digest.Has(static_cast<int>(frame.layer()), block))
    return absl::InvalidArgumentError(absl::StrCat(Name(frame), ": came twice"));
  const int known = transfer_->positions[block];
  if (known != 0 && static_cast<uint32_t>(known) != frame.positions())
    return absl::InvalidArgumentError(
        absl::StrCat(Name(frame), ": other layers have ", known, " positions of this block"));
  return absl::OkStatus();
}

absl::Status HandoffReceiver::CheckCommit(const KvCommit& commit) const {
  const uint64_t most_selected = transfer_->end_position - expected_.tokens + 1;
  const uint64_t selected = commit.selected_size();
  if (selected < 1 || selected > most_selected)
    return absl::DataLossError(
        absl::StrCat("the commit has ", selected, " selected tokens; the header allows 1 to ", most_selected));
  const int end = expected_.tokens + static_cast<int>(selected) - 1;
  if (commit.end_position() != static_cast<uint32_t>(end)) return CommitError("end", commit.end_position(), end);
  const uint64_t bytes = PayloadBytes(cache_->layout(), expected_.first_position, end);
  if (commit.payload_bytes() != bytes) return CommitError("payload size", commit.payload_bytes(), bytes);

  const int blocks = BlockIndex(end - 1) + 1;
  if (!transfer_->digest.Complete(blocks))
    return absl::DataLossError(absl::StrCat("frames are missing, or lie past position ", end));
  // Every block but the last runs to its end: `Complete` saw a frame in it, this checks the length.
  const int first_block = expected_.first_position / kBlockPositions;
  for (int block = 0; block < blocks; ++block) {
    const int block_first = std::max(expected_.first_position, (first_block + block) * kBlockPositions);
    const int want = std::min(end, (first_block + block + 1) * kBlockPositions) - block_first;
    if (transfer_->positions[block] != want)
      return absl::DataLossError(absl::StrCat("the frames at position ", block_first, " have ",
                                              transfer_->positions[block], " positions instead of ", want));
  }
  const Digest digest = transfer_->digest.Finish(blocks);
  if (commit.digest() != std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()) &&
      !KV_PLANTED(no_digest_check))
    return absl::DataLossError("the digest of the handoff differs; what was received is not what was sent");
  return CheckSelected(commit);
}

absl::Status HandoffReceiver::CheckSelected(const KvCommit& commit) const {
  uint32_t index = expected_.first_index;
  for (int i = 0; i < commit.selected_size(); ++i, ++index) {
    const worker::v1::Selected& token = commit.selected(i);
    if (token.index() != index) return CommitError("token index", token.index(), index);
    bool sound = token.token_id() < expected_.vocabulary && !std::isnan(token.logprob()) &&
                 token.top_size() <= expected_.logprobs;
    for (const worker::v1::TopToken& top : token.top())
      sound = sound && top.token_id() < expected_.vocabulary && !std::isnan(top.logprob());
    if (!sound)
      return absl::DataLossError(absl::StrCat("token ", index, " of the commit is outside the vocabulary of ",
                                              expected_.vocabulary, " or its log-probabilities are not as asked for"));
    const bool last = i + 1 == commit.selected_size();
    if (expected_.ends_request(index, token.token_id()) != (last && commit.ends_request()))
      return absl::DataLossError(
          absl::StrCat("token ", index, " of the commit: the sender's end rule differs from ours"));
  }
  return absl::OkStatus();
}

absl::Status HandoffReceiver::Fail(absl::Status status) {
  transfer_.reset();
  state_ = State::kFailed;
  return status;
}

}  // namespace kvrelay::kv_wire
