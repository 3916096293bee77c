// The books of one request: what each worker reported about positions, checked, and the sums that the client sees.
//
// Workers count where the work is done; this class adds up and checks. The equations:
//   1. per worker:        kv_ready = reused + received + computed - discarded
//   2. after each run:    prompt + selected - kv_ready == 1 with a cache, kv_ready == 0 without one
//   3. of the stream:     selected == resumed + emitted + dropped
// A report that breaks 1 or 2 gives INTERNAL; 3 and the sums are our own promises (CHECK).
//
// An entry is one call on one worker. A worker cannot know what others computed for the request before it (a failed
// attempt, a lost decode worker), so that part of `recomputed` is added here: the first positions that an entry
// computes for the first time on its worker, up to the high-water mark at the time the entry was opened.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "router/worker.h"

namespace kvrelay::router {

class RequestAccounting {
 public:
  // `resumed`: tokens selected before this stream began.
  RequestAccounting(uint32_t prompt, uint32_t resumed) : prompt_(prompt), resumed_(resumed) {}

  // Opens an entry and gives its number. `cached`: false for an execution without a cache.
  int Open(const Worker& worker, bool cached);

  // Progress of an unfinished prompt; no more than a lower bound, replaced by the next report.
  void ReportProgress(int entry, uint32_t computed);
  // A worker's counts. INTERNAL if they break equation 1 or go back.
  absl::Status Report(int entry, const wire::Positions& positions);
  // A worker's counts after the run that selected token number `index`. INTERNAL also if they break equation 2.
  // `own_run`: this worker made the run (not so for a token that came with its KV).
  absl::Status ReportSelected(int entry, const wire::Positions& positions, uint32_t index, bool own_run);
  // From now on the entry holds the stream's KV.
  void SetHolder(int entry) { holder_ = entry; }
  // The entry's call ended before its work was done: its KV is gone.
  void Drop(int entry);

  // How many of a run's `computed` positions, the last of which is end - 1, an earlier entry had computed.
  uint32_t KnownBefore(int entry, uint32_t computed, uint32_t end) const;

  // Tokens of this stream.
  void CountEmitted() { ++emitted_; }
  void CountDropped() { ++dropped_; }
  uint32_t emitted() const { return emitted_; }
  uint32_t dropped() const { return dropped_; }
  // Guessed tokens that workers computed, and those of them that were right.
  std::pair<uint64_t, uint64_t> DraftedAndAccepted() const;

  // For the client: sums over entries; `selected` as known now.
  v1::PositionAccounting Total() const;
  // One per worker that took part; several entries of one worker are added up.
  std::vector<v1::WorkerPositions> Workers() const;

 private:
  struct Entry {
    std::string instance;
    v1::WorkerRole role = v1::WORKER_ROLE_UNSPECIFIED;
    bool cached = true;
    uint64_t known_before = 0;  // high-water mark when opened
    wire::Positions positions;
    bool reported = false;  // more than progress
    uint32_t selected = 0;  // by its own runs
  };
  static uint64_t Recomputed(const Entry& entry);
  // One past the last position that any entry is known to have computed.
  uint64_t HighWater() const;

  const uint32_t prompt_;
  const uint32_t resumed_;
  uint32_t emitted_ = 0;
  uint32_t dropped_ = 0;
  std::vector<Entry> entries_;
  int holder_ = -1;
};

}  // namespace kvrelay::router
