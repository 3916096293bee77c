#include "common/sampling/end_rule.h"

#include <algorithm>

namespace kvrelay::sampling {
namespace {

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

EndReason EndsRequest(const EndRule& rule, uint32_t selected, int32_t token) {
  if (Contains(rule.eos_ids, token)) return EndReason::kEos;
  if (Contains(rule.stop_ids, token)) return EndReason::kStopToken;
  if (selected >= rule.max_tokens) return EndReason::kLength;
  return EndReason::kNone;
}

std::vector<int32_t> BannedIds(const EndRule& rule, uint32_t index) {
  if (index >= rule.min_tokens) return {};
  std::vector<int32_t> banned = rule.eos_ids;
  banned.insert(banned.end(), rule.stop_ids.begin(), rule.stop_ids.end());
  return banned;
}

}  // namespace kvrelay::sampling
