#include "common/kv_wire/handoff_sender.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace kvrelay::kv_wire {

using kv::kBlockPositions;

HandoffSender::HandoffSender(std::shared_ptr<const kv::SequenceCache> cache, int first_position, int end_position)
    : cache_(std::move(cache)),
      first_position_(first_position),
      end_position_(end_position),
      first_block_(first_position / kBlockPositions),
      blocks_(kv::BlocksFor(end_position) - first_block_),
      next_block_(cache_->layout().layers, 0),
      digest_(cache_->layout().layers, blocks_) {
  KV_CHECK(0 <= first_position && first_position < end_position && end_position <= cache_->capacity(),
           "a handoff ships a range of its cache");
}

std::vector<Piece> HandoffSender::OnLayer(int layer, int end) {
  KV_CHECK(layer >= 0 && layer < cache_->layout().layers, "the layer exists");
  std::vector<Piece> ready;
  for (int& next = next_block_[layer]; next < blocks_; ++next) {
    const int block_first = (first_block_ + next) * kBlockPositions;
    const int piece_first = std::max(first_position_, block_first);
    const int piece_end = std::min(end_position_, block_first + kBlockPositions);
    if (piece_end > end) break;
    ready.push_back({layer, piece_first, piece_end - piece_first});
  }
  return ready;
}

void HandoffSender::SetEnd(int end) {
  KV_CHECK(first_position_ < end && end <= end_position_, "the final end lies inside the range");
  end_position_ = end;
  blocks_ = kv::BlocksFor(end) - first_block_;
}

void HandoffSender::BuildFrame(const Piece& piece, worker::v1::KvFrame* frame) {
  kv_wire::BuildFrame(*cache_, piece, frame);
  digest_.Add(piece.layer, piece.first_position / kBlockPositions - first_block_, DigestOf(PayloadOf(*frame)));
}

worker::v1::KvHeader HandoffSender::Header(std::string_view handoff_id, uint32_t attempt,
                                           const worker::v1::WorkerIdentity& sender) const {
  worker::v1::KvHeader header;
  header.set_handoff_id(std::string(handoff_id));
  header.set_attempt(attempt);
  *header.mutable_sender() = sender;
  *header.mutable_layout() = LayoutToProto(cache_->layout());
  header.set_first_position(first_position_);
  header.set_end_position(end_position_);
  header.set_payload_bytes(payload_bytes());
  return header;
}

worker::v1::KvCommit HandoffSender::Commit() const {
  const Digest digest = digest_.Finish(blocks_);
  worker::v1::KvCommit commit;
  commit.set_digest(std::string(digest.begin(), digest.end()));
  commit.set_end_position(end_position_);
  commit.set_payload_bytes(payload_bytes());
  return commit;
}

}  // namespace kvrelay::kv_wire
