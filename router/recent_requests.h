// The requests that came last, in figures, for GetStatus. Bounded: an older one is forgotten when a newer one comes,
// also while it runs.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::router {

// Thread-safe.
class RecentRequests {
 public:
  static constexpr size_t kKept = 64;

  // One request. Not thread-safe.
  class Request {
   public:
    // `recent` must outlive this object. Times are those of one clock.
    Request(RecentRequests* recent, std::string client, absl::Duration arrival)
        : recent_(recent), entry_{.number = 0, .client = std::move(client), .arrival = arrival, .summary = {}} {}
    // An event goes to the client.
    void Sent(const v1::GenerateResponse& response);
    // REQUIRES: called once. An unauthenticated call leaves nothing.
    void Ended(const absl::Status& status, absl::Duration now);

   private:
    friend class RecentRequests;
    RecentRequests* const recent_;
    struct Entry {
      uint64_t number;  // 0: not put in yet
      std::string client;
      absl::Duration arrival;
      v1::RequestSummary summary;
    } entry_;
  };

  // Newest first; `client`: those of this one only.
  std::vector<v1::RequestSummary> List(std::optional<std::string_view> client, absl::Duration now) const;

 private:
  // Puts the entry in, or what it says now in place of what it said before.
  void Put(Request::Entry& entry);

  mutable absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Request::Entry> entries_ ABSL_GUARDED_BY(mutex_);  // ascending numbers without gaps
};

}  // namespace kvrelay::router
