#include "tests/engine/covering.h"

#include <algorithm>
#include <array>
#include <set>

namespace kvrelay::testing {
namespace {

constexpr int kDimensions = 6;
using Choice = std::array<int, kDimensions>;  // an index into each dimension's values

constexpr Way kWays[] = {Way::kLocal, Way::kSplit, Way::kNoCache};
constexpr int kChunks[] = {1, 7, 64, 512, 8192};
constexpr int kThreads[] = {1, 2};
constexpr int kBatches[] = {1, 4, 16};

// The values at the dimensions of `mask`, as a key.
using Combination = std::vector<int>;
Combination KeyOf(const Choice& choice, unsigned mask) {
  Combination key{static_cast<int>(mask)};
  for (int d = 0; d < kDimensions; ++d)
    if (mask >> d & 1) key.push_back(choice[d]);
  return key;
}

std::vector<Choice> AllChoices(const Choice& sizes) {
  std::vector<Choice> all{Choice{}};
  for (int d = 0; d < kDimensions; ++d) {
    std::vector<Choice> next;
    for (const Choice& partial : all)
      for (int v = 0; v < sizes[d]; ++v) {
        next.push_back(partial);
        next.back()[d] = v;
      }
    all.swap(next);
  }
  return all;
}

}  // namespace

std::vector<kernels::Isa> SupportedIsas() {
  std::vector<kernels::Isa> isas;
  for (kernels::Isa isa : kernels::kAllIsas)
    if (kernels::IsaSupported(isa)) isas.push_back(isa);
  return isas;
}

std::vector<BitsCase> CoveringCases(int t, absl::Span<const kernels::Isa> supported, bool with_scalar) {
  std::vector<kernels::Isa> isas;
  for (kernels::Isa isa : supported)
    if (with_scalar || isa != kernels::Isa::kScalar) isas.push_back(isa);
  const Choice sizes = {std::size(kWays),
                        std::size(kChunks),
                        std::size(kThreads),
                        std::size(kBatches),
                        static_cast<int>(isas.size()),
                        std::size(kv::kAllKvTypes)};
  const std::vector<Choice> all = AllChoices(sizes);
  std::vector<unsigned> masks;
  for (unsigned mask = 0; mask < 1u << kDimensions; ++mask)
    if (__builtin_popcount(mask) == t) masks.push_back(mask);
  std::set<Combination> missing;
  for (const Choice& choice : all)
    for (unsigned mask : masks) missing.insert(KeyOf(choice, mask));

  std::vector<BitsCase> cases;
  while (!missing.empty()) {
    const Choice* best = nullptr;
    long best_new = 0;
    for (const Choice& choice : all) {
      const long fresh = std::count_if(masks.begin(), masks.end(),
                                       [&](unsigned mask) { return missing.contains(KeyOf(choice, mask)); });
      if (fresh > best_new) best = &choice, best_new = fresh;
    }
    for (unsigned mask : masks) missing.erase(KeyOf(*best, mask));
    cases.push_back({.way = kWays[(*best)[0]],
                     .chunk = kChunks[(*best)[1]],
                     .threads = kThreads[(*best)[2]],
                     .batch = kBatches[(*best)[3]],
                     .isa = isas[(*best)[4]],
                     .kv_type = kv::kAllKvTypes[(*best)[5]]});
  }
  return cases;
}

}  // namespace kvrelay::testing
