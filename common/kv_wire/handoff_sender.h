// The sending side of one handoff, without I/O: which frames are ready when, the frames, the header and the commit.
//
// Use: OnLayer() returns the pieces that this layer made ready; the caller queues them to its writer, which calls
// BuildFrame() for each and, when all are written, Commit(). A block of a layer is ready when all its positions of the
// range are computed in that layer, so in the last chunk the last block, full or not, goes out layer by layer, and
// after the last layer only that layer's frames and the commit remain.
//
// Thread-safety: two halves that share no state. OnLayer() belongs to one thread (the compute thread); BuildFrame(),
// complete() and Commit() to one other (the writer); Header() to whoever made it, before both. The caller's queue
// between the two orders the cache writes before the reads. Shares the cache, whose blocks therefore stay until the
// sender is gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/kv/sequence_cache.h"
#include "common/kv_wire/digest.h"
#include "common/kv_wire/frame.h"
#include "kvrelay/worker/v1/kv.pb.h"

namespace kvrelay::kv_wire {

class HandoffSender {
 public:
  // Ships positions [first_position, end_position). REQUIRES: 0 <= first < end <= capacity. Where the end is not known
  // yet (a stream that moves while it grows), it is an upper bound until SetEnd().
  HandoffSender(std::shared_ptr<const kv::SequenceCache> cache, int first_position, int end_position);

  // Layer `layer` of all positions below `end` is in the cache. Returns what became ready, ascending; each piece once.
  // Positions may be computed in any number of chunks; those outside the range are ignored.
  std::vector<Piece> OnLayer(int layer, int end);

  // The range ends at `end`. REQUIRES: on the thread of OnLayer(), once at most, before the last OnLayer() calls and
  // before Commit(); first_position < end <= end_position(), and no piece past `end` was returned.
  void SetEnd(int end);

  // Fills `frame` (its memory is reused) and takes its payload into the digest. REQUIRES: once per piece of OnLayer().
  void BuildFrame(const Piece& piece, worker::v1::KvFrame* frame);

  // First message of the call.
  worker::v1::KvHeader Header(std::string_view handoff_id, uint32_t attempt,
                              const worker::v1::WorkerIdentity& sender) const;
  // True when every frame was built.
  bool complete() const { return digest_.Complete(blocks_); }
  // Last message: digest, range and byte total; the caller adds selected, ends_request and positions. REQUIRES:
  // complete().
  worker::v1::KvCommit Commit() const;

  int first_position() const { return first_position_; }
  int end_position() const { return end_position_; }
  uint64_t BytesOf(const Piece& piece) const { return piece.positions * cache_->layout().PositionBytes(); }
  // Payload bytes of the whole range: layers * positions * PositionBytes.
  uint64_t payload_bytes() const { return PayloadBytes(cache_->layout(), first_position_, end_position_); }

 private:
  const std::shared_ptr<const kv::SequenceCache> cache_;
  const int first_position_;
  int end_position_;
  const int first_block_;
  int blocks_;
  std::vector<int> next_block_;  // per layer: first block not yet ready; compute thread only
  HandoffDigest digest_;         // writer only
};

}  // namespace kvrelay::kv_wire
