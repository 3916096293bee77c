#include "common/engine/draft.h"

#include <algorithm>

namespace kvrelay::engine {
namespace {

// Shorter matches are found in any text by chance.
constexpr int kMatch = 3;
constexpr int kLongest = 32;
// Steps without a guess after failures in a row: 2, 4, 8 and so on to 2^kMostFailures.
constexpr int kMostFailures = 6;

}  // namespace

std::vector<int32_t> Drafter::Guess(absl::Span<const int32_t> history, int limit) {
  if (pause_ > 0) {
    --pause_;
    return {};
  }
  const int size = static_cast<int>(history.size());
  if (size <= kMatch) return {};
  const int32_t* last = history.data() + size - kMatch;
  for (int at = size - kMatch - 1; at >= 0 && limit > 0; --at) {  // the latest place is the likeliest
    if (!std::equal(last, last + kMatch, history.data() + at)) continue;
    const int first = at + kMatch;
    std::vector<int32_t> guesses;
    while (static_cast<int>(guesses.size()) < std::min(length_, limit)) {
      const int next = first + static_cast<int>(guesses.size());
      guesses.push_back(next < size ? history[next] : guesses[next - size]);  // a text that goes round
    }
    return guesses;
  }
  return {};
}

void Drafter::Learn(int made, int right) {
  length_ = right == made ? std::min(2 * length_, kLongest) : std::max(1, right);
  failures_ = right > 0 ? 0 : std::min(failures_ + 1, kMostFailures);
  if (failures_ > 0) pause_ = 1 << failures_;
}

}  // namespace kvrelay::engine
