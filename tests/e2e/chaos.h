// Streams under faults: clients ask a service of real processes again and again while its workers and routers are
// killed, suspended and drained, and while the links between them are cut, slowed down and left half-open. Each stream
// must equal that of an undisturbed run, byte for byte.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kvrelay::e2e {

struct ChaosOptions {
  int prefill = 2, decode = 3, routers = 2;  // at least two each: one of a role is struck at a time
  int streams = 32;                          // clients at a time
  absl::Duration duration = absl::Minutes(10);
  uint64_t seed = 1;
};

struct ChaosReport {
  int streams = 0;
  int64_t tokens = 0;
  int wrong = 0;    // a token, text or log-probability that differs
  int lost = 0;     // ended in an error for good
  int refused = 0;  // new requests for which there was no room; asked again
  int attempts = 0, replans = 0, resumed = 0;
  std::string first_problem;
  bool idle_at_end = false;  // no session and no referenced block is left
  struct Fault {
    int count = 0;
    absl::Duration longest_gap;  // between two tokens of a stream, in a gap that such a fault fell into
  };
  std::map<std::string, Fault> faults;  // "kill decode", "suspend prefill", ...
  absl::Duration longest_gap;           // of all

  bool clean() const { return wrong == 0 && lost == 0 && idle_at_end; }
  // A table for people.
  std::string Text() const;
};

absl::StatusOr<ChaosReport> RunChaos(const ChaosOptions& options);

}  // namespace kvrelay::e2e
