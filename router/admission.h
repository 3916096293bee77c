// The router's queue: requests that wait for room on a worker, in order and within limits.
//
// A request is served as if it had come `kPriorityStep` earlier for each step of its priority: so higher ones go first,
// and none waits for ever. As long as the workers have room, whoever comes asks them. Once one that waits was refused,
// only the first `kTrying` ask; the others wait without asking, and hold nothing.
//
// Thread-safe. Wake functions are called without the lock, and may call back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kvrelay::router {

struct AdmissionLimits {
  uint32_t requests = 256;    // that wait
  uint64_t tokens = 1 << 20;  // prompt + max_tokens of all that wait
};

class AdmissionQueue {
 public:
  using Ticket = uint64_t;  // 0 is none
  static constexpr absl::Duration kPriorityStep = absl::Seconds(10);
  static constexpr size_t kTrying = 8;

  explicit AdmissionQueue(const AdmissionLimits& limits) : limits_(limits) {}

  struct Request {
    absl::Duration arrival;        // on the router's clock
    int priority = 0;              // more is sooner
    uint64_t tokens = 0;           // prompt + max_tokens
    bool admitted_before = false;  // a stream that lost its worker: limits do not turn it away
  };
  // Takes a place. `wake` is called when the request should try again. RESOURCE_EXHAUSTED names the limit.
  absl::StatusOr<Ticket> Enter(const Request& request, std::function<void()> wake);
  // Whether the request may ask the workers for room.
  bool MayTry(Ticket ticket) const;
  // It has asked, and there was none.
  void OnRefused(Ticket ticket);
  // Gives the place up, and wakes those that are among the first now. Nothing for tickets that have left.
  void Leave(Ticket ticket);
  // Room may have become free on a worker: wakes the first.
  void Wake();

  size_t size() const;

 private:
  using Order = std::pair<absl::Duration, Ticket>;  // virtual arrival
  struct Place {
    uint64_t tokens = 0;
    std::function<void()> wake;
    bool refused = false;
  };
  void WakeFirst(size_t count);

  const AdmissionLimits limits_;
  mutable std::mutex mutex_;
  Ticket last_ = 0;
  uint64_t tokens_ = 0;
  size_t refused_ = 0;  // of those that wait
  std::map<Order, Place> places_;
  std::map<Ticket, absl::Duration> orders_;
};

}  // namespace kvrelay::router
