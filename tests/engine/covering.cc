#include "tests/engine/covering.h"

#include <algorithm>
#include <array>

namespace kvrelay::testing {
namespace {

constexpr int kDimensions = 7;
using Choice = std::array<int, kDimensions>;  // an index into each dimension's values

constexpr Way kWays[] = {Way::kLocal, Way::kSplit, Way::kNoCache};
constexpr int kChunks[] = {1, 7, 64, 512, 8192};
constexpr int kThreads[] = {1, 2};
constexpr int kBatches[] = {1, 4, 16};

// The combinations of values at the dimensions of `mask`, numbered, and which of them have not occurred yet.
struct Combinations {
  Combinations(unsigned mask, const Choice& sizes) : mask(mask), sizes(sizes) {
    size_t count = 1;
    for (int d = 0; d < kDimensions; ++d)
      if (mask >> d & 1) count *= sizes[d];
    missing.assign(count, true);
  }
  size_t Index(const Choice& choice) const {
    size_t index = 0;
    for (int d = 0; d < kDimensions; ++d)
      if (mask >> d & 1) index = index * sizes[d] + choice[d];
    return index;
  }

  unsigned mask;
  Choice sizes;
  std::vector<bool> missing;
};

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

// Takes the choice with the most missing combinations until none is missing; never one that is left out.
template <typename LeftOut>
std::vector<Choice> Cover(int t, const Choice& sizes, LeftOut left_out) {
  std::vector<Combinations> tables;
  for (unsigned mask = 0; mask < 1u << kDimensions; ++mask)
    if (__builtin_popcount(mask) == t) tables.emplace_back(mask, sizes);
  std::vector<Choice> all = AllChoices(sizes);
  all.erase(std::remove_if(all.begin(), all.end(), left_out), all.end());
  std::vector<Choice> taken;
  while (true) {
    const Choice* best = nullptr;
    long best_new = 0;
    for (const Choice& choice : all) {
      const long fresh = std::count_if(tables.begin(), tables.end(),
                                       [&](const Combinations& c) { return c.missing[c.Index(choice)]; });
      if (fresh > best_new) best = &choice, best_new = fresh;
    }
    if (best == nullptr) return taken;
    for (Combinations& c : tables) c.missing[c.Index(*best)] = false;
    taken.push_back(*best);
  }
}

}  // namespace

std::vector<kernels::Isa> SupportedIsas() {
  std::vector<kernels::Isa> isas;
  for (kernels::Isa isa : kernels::kAllIsas)
    if (kernels::IsaSupported(isa)) isas.push_back(isa);
  return isas;
}

std::vector<BitsCase> CoveringCases(int t, absl::Span<const kernels::Isa> supported, bool with_scalar,
                                    absl::Span<const model_file::TensorType> weights) {
  std::vector<kernels::Isa> isas;
  for (kernels::Isa isa : supported)
    if (with_scalar || isa != kernels::Isa::kScalar) isas.push_back(isa);
  const Choice sizes = {std::size(kWays),
                        std::size(kChunks),
                        std::size(kThreads),
                        std::size(kBatches),
                        static_cast<int>(isas.size()),
                        std::size(kv::kAllKvTypes),
                        std::max(1, static_cast<int>(weights.size()))};
  // The dearest meeting of four values takes minutes a case: every step of thousands computes 15 heads with scalar
  // kernels. Any three of the four meet all the same.
  const auto left_out = [&](const Choice& choice) {
    return kWays[choice[0]] == Way::kNoCache && kChunks[choice[1]] < 64 && kBatches[choice[3]] == 16 &&
           isas[choice[4]] == kernels::Isa::kScalar;
  };
  std::vector<BitsCase> cases;
  for (const Choice& choice : Cover(t, sizes, left_out)) {
    cases.push_back({.way = kWays[choice[0]],
                     .chunk = kChunks[choice[1]],
                     .threads = kThreads[choice[2]],
                     .batch = kBatches[choice[3]],
                     .isa = isas[choice[4]],
                     .kv_type = kv::kAllKvTypes[choice[5]]});
    if (!weights.empty()) cases.back().weights = weights[choice[6]];
  }
  return cases;
}

}  // namespace kvrelay::testing
