// Which tokens may be selected, as ranges of ids: found once for a request, walked at every selection.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kvrelay::sampling {

// Ids from `begin` to `end` - 1.
struct IdRange {
  int32_t begin, end;
  bool operator==(const IdRange&) const = default;
};

// All ids, whatever the vocabulary.
inline constexpr IdRange kAllIds{0, INT32_MAX};

// The ids of `allowed` that are not in `banned`, as ranges that ascend and do not touch. An empty `allowed` is all ids.
// Both in any order, duplicates and ids outside any vocabulary included.
std::vector<IdRange> SelectableIds(absl::Span<const int32_t> allowed, absl::Span<const int32_t> banned);

// The ids below `vocabulary` whose bits are set, from the lowest bit of the first word, as ranges that ascend and do
// not touch; `*ranges` is replaced. REQUIRES: a bit for every id.
void RangesOfMask(absl::Span<const uint32_t> mask, int32_t vocabulary, std::vector<IdRange>* ranges);

}  // namespace kvrelay::sampling
