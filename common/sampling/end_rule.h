// Whether a selected token ends its request: the one shared rule, a pure function of its arguments, so that prefill
// worker, decode worker and router always agree.
#pragma once

#include <cstdint>
#include <vector>

namespace kvrelay::sampling {

enum class EndReason { kNone = 0, kEos = 1, kStopToken = 2, kLength = 3, kFinishedByRouter = 4 };

struct EndRule {
  std::vector<int32_t> eos_ids;   // the model's own; empty if ignore_eos was asked for
  std::vector<int32_t> stop_ids;  // the request's
  uint32_t max_tokens = 1;
  uint32_t min_tokens = 0;
};

// `selected`: tokens selected so far, this one included. End tokens before min_tokens were not selectable (BannedIds),
// so the order is: EOS, stop token, length.
EndReason EndsRequest(const EndRule& rule, uint32_t selected, int32_t token);

// Ids that may not be selected as token number `index` (from 0): all end ids while index < min_tokens, else none.
std::vector<int32_t> BannedIds(const EndRule& rule, uint32_t index);

}  // namespace kvrelay::sampling
