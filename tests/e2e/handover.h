// What a handover costs, measured on real processes with one core each: the tail of a prefill's handoff, and the gap
// that a live move adds to a stream.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace kvrelay::e2e {

struct HandoverOptions {
  int repeats = 50;        // handoffs of each length
  int streams = 16;        // live when their worker drains
  int drain_prompt = 512;  // tokens, at least, that each of them has
};

// Runs all and returns the report as text. An error if a stream failed, differed from an undisturbed one, or computed
// anything again.
absl::StatusOr<std::string> MeasureHandover(const HandoverOptions& options);

}  // namespace kvrelay::e2e
