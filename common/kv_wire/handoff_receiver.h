// The receiving side of one reservation, without I/O: attempts, and the header, frames and commit of each. Believes
// nothing: every field is checked against the reservation before memory is taken or written.
//
// Per attempt: closed -> open (OpenAttempt) -> receiving (OnHeader) -> published (OnCommit) or failed. Any error while
// receiving fails the attempt; its later messages are refused. Frames are written to positions that are not published,
// so a failed or unfinished attempt leaves kv_ready() as it was, and the next attempt writes over it. Publication is
// one step, in the commit, and happens once per reservation: the first commit wins, later streams are answered with its
// receipt.
//
// Thread-safe: the owner of the reservation and the calls of several attempts may come on different threads. When
// OpenAttempt() or Close() has returned, no write of an earlier attempt lands any more.
//
// Status codes as in proto/kvrelay/worker/v1/kv.proto:
//   NOT_FOUND            another handoff id
//   ABORTED              the attempt is not the open one, its sender is another, it has failed, or it is receiving
//   already FAILED_PRECONDITION  model, numerics, layout or range differ from the reservation's DATA_LOSS            a
//   checksum or digest differs, values are not finite, frames are missing, or the commit
//                        contradicts what was received
//   INVALID_ARGUMENT     a frame does not fit the header or came before
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/kv/sequence_cache.h"
#include "common/kv_wire/digest.h"
#include "kvrelay/worker/v1/kv.pb.h"

namespace kvrelay::kv_wire {

// What the reservation knows about the handoff, before anything arrives.
struct HandoffExpectation {
  std::string handoff_id;         // 16 bytes
  std::string model_fingerprint;  // our own
  std::string numerics_id;        // our own
  int first_position = 0;         // positions that the cache holds already
  int tokens = 1;                 // prompt and history: with n tokens selected since, positions end at tokens + n - 1
  int max_end_position = 1;       // largest end the header may name; `tokens` for a prefill
  uint32_t first_index = 0;       // index in the request of the next selected token: the length of the history
  uint32_t vocabulary = 0;        // token ids are below this
  int logprobs = 0;               // most entries of a token's `top`
  // Whether token number `index` (from 0) of the request ends it: the shared rule.
  std::function<bool(uint32_t index, uint32_t token)> ends_request;
};

struct HandoffReceipt {
  uint32_t winner = 0;  // the attempt that was published
  bool duplicate = false;
  uint32_t received = 0;  // positions published
  uint64_t payload_bytes = 0;
  absl::Duration duration;  // first frame until the commit was checked
};

class HandoffReceiver {
 public:
  // Writes into `cache`, and into nothing else. `clock` must outlive the receiver. REQUIRES: cache->kv_ready() ==
  // first_position < tokens <= max_end_position <= capacity; ends_request is set.
  HandoffReceiver(std::shared_ptr<kv::SequenceCache> cache, HandoffExpectation expectation, const Clock* clock);

  // Opens attempt `attempt` for the sender of that instance and closes the one before. Returns 0, or, if KV was
  // published before, the attempt that won (nothing is opened then). INVALID_ARGUMENT unless `attempt` is one more than
  // the last, the first being 1. ABORTED after Close().
  absl::StatusOr<uint32_t> OpenAttempt(uint32_t attempt, std::string sender_instance);

  // First message of a ReceiveKv call. After publication: OK, and the call's frames are ignored.
  absl::Status OnHeader(const worker::v1::KvHeader& header);
  // A frame of the call whose header named `attempt`. After publication: OK, ignored.
  absl::Status OnFrame(uint32_t attempt, const worker::v1::KvFrame& frame);
  // Checks the whole and publishes, or, after publication, returns the winner's receipt as a duplicate. On a receipt
  // that is no duplicate the caller may use `commit`: its tokens have been checked.
  absl::StatusOr<HandoffReceipt> OnCommit(uint32_t attempt, const worker::v1::KvCommit& commit);

  // The reservation ends: nothing is written or published after this.
  void Close();

  // Receipt of the published attempt, if there is one.
  std::optional<HandoffReceipt> published() const;

 private:
  enum class State { kClosed, kOpen, kReceiving, kFailed };
  // Bookkeeping of the receiving attempt.
  struct Transfer {
    Transfer(int layers, int end_position, int blocks)
        : end_position(end_position), digest(layers, blocks), positions(blocks, 0) {}
    const int end_position;      // the header's upper bound
    HandoffDigest digest;        // by (layer, block of the range)
    std::vector<int> positions;  // per block of the range: positions of its frames, 0 before the first
    std::optional<absl::Duration> first_frame;
  };

  int BlockIndex(int position) const;
  // Whether messages of `attempt` are for us at all. Of no effect on the attempt that is.
  // REQUIRES: mutex_ is held.
  absl::Status CheckAttempt(uint32_t attempt) const;
  absl::Status CheckHeader(const worker::v1::KvHeader& header) const;
  // What the frame alone tells: sizes, checksum, values.
  absl::Status CheckContent(const worker::v1::KvFrame& frame) const;
  // Whether it fits the header and the frames before it. REQUIRES: mutex_ is held.
  absl::Status CheckPlace(const worker::v1::KvFrame& frame) const;
  // REQUIRES: mutex_ is held.
  absl::Status CheckCommit(const worker::v1::KvCommit& commit) const;
  absl::Status CheckSelected(const worker::v1::KvCommit& commit) const;
  // Ends the transfer; returns `status`. REQUIRES: mutex_ is held.
  absl::Status Fail(absl::Status status);

  const std::shared_ptr<kv::SequenceCache> cache_;
  const HandoffExpectation expected_;
  const Clock* const clock_;

  mutable std::mutex mutex_;  // guards all below
  State state_ = State::kClosed;
  bool ended_ = false;
  uint32_t attempt_ = 0;
  std::string sender_instance_;
  std::optional<Transfer> transfer_;
  std::optional<HandoffReceipt> published_;
};

}  // namespace kvrelay::kv_wire
