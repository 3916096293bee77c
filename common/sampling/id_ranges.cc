#include "common/sampling/id_ranges.h"

#include <algorithm>

namespace kvrelay::sampling {
namespace {

std::vector<int32_t> Sorted(absl::Span<const int32_t> ids) {
  std::vector<int32_t> sorted;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(sorted),
               [](int32_t id) { return id >= kAllIds.begin && id < kAllIds.end; });
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

std::vector<IdRange> AllBut(const std::vector<int32_t>& banned) {
  std::vector<IdRange> ranges;
  int32_t begin = kAllIds.begin;
  for (const int32_t id : banned) {
    if (begin < id) ranges.push_back({begin, id});
    begin = id + 1;
  }
  if (begin < kAllIds.end) ranges.push_back({begin, kAllIds.end});
  return ranges;
}

}  // namespace

std::vector<IdRange> SelectableIds(absl::Span<const int32_t> allowed, absl::Span<const int32_t> banned) {
  const std::vector<int32_t> out = Sorted(banned);
  if (allowed.empty()) return AllBut(out);
  std::vector<IdRange> ranges;
  for (const int32_t id : Sorted(allowed)) {
    if (std::binary_search(out.begin(), out.end(), id)) continue;
    if (!ranges.empty() && ranges.back().end == id) {
      ++ranges.back().end;
    } else {
      ranges.push_back({id, id + 1});
    }
  }
  return ranges;
}

void RangesOfMask(absl::Span<const uint32_t> mask, int32_t vocabulary, std::vector<IdRange>* ranges) {
  ranges->clear();
  for (int32_t id = 0; id < vocabulary; ++id) {
    const uint32_t word = mask[id / 32];
    if (id % 32 == 0 && word == 0) {  // most words, where a text is strict
      id += 31;
      continue;
    }
    if ((word >> (id % 32) & 1) == 0) continue;
    if (!ranges->empty() && ranges->back().end == id) {
      ++ranges->back().end;
    } else {
      ranges->push_back({id, id + 1});
    }
  }
}

}  // namespace kvrelay::sampling
