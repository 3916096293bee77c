#include "common/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/kernels.h"
#include "common/kernels/math.h"
#include "common/sampling/philox.h"

namespace kvrelay::sampling {
namespace {

struct Candidate {
  float score;
  int32_t id;
};

// The one order of candidates. It is total, so a partial selection gives the same prefix whatever the algorithm.
bool Before(const Candidate& a, const Candidate& b) { return a.score != b.score ? a.score > b.score : a.id < b.id; }

// Passes over the whole vocabulary work on this many values at once: a fixed number, which the compiler turns into
// vectors.
constexpr size_t kLanes = 16;

bool IsFinite(float x) { return (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }

absl::Status CheckFinite(absl::Span<const float> logits, uint64_t position) {
  // Adding one to the exponent carries into the sign bit exactly if the exponent is all ones: infinity or NaN.
  uint32_t seen[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      seen[lane] |= (std::bit_cast<uint32_t>(logits[i + lane]) & 0x7f800000u) + 0x00800000u;
  uint32_t any = 0;
  for (uint32_t lane : seen) any |= lane;
  if ((any >> 31) == 0 && std::all_of(logits.begin() + i, logits.end(), IsFinite)) return absl::OkStatus();
  const size_t id = std::find_if_not(logits.begin(), logits.end(), IsFinite) - logits.begin();
  return absl::InternalError(
      absl::StrCat("the logit of token ", id, " for position ", position, " is ", logits[id], ", not a finite number"));
}

// Calls visit(begin, end) for the ranges of selectable ids in the vocabulary, ascending; none is empty.
template <typename Visit>
void ForRanges(absl::Span<const IdRange> ranges, size_t vocabulary, Visit visit) {
  for (const IdRange& range : ranges) {
    const size_t begin = range.begin, end = std::min<size_t>(range.end, vocabulary);
    if (begin < end) visit(begin, end);
  }
}

float Largest(absl::Span<const float> logits) {
  float most[kLanes];
  std::fill(most, most + kLanes, logits[0]);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      most[lane] = logits[i + lane] > most[lane] ? logits[i + lane] : most[lane];
  float best = *std::max_element(most, most + kLanes);
  for (; i < logits.size(); ++i) best = std::max(best, logits[i]);
  return best;
}

std::optional<Candidate> Greedy(absl::Span<const float> scores, absl::Span<const IdRange> selectable) {
  std::optional<Candidate> best;
  ForRanges(selectable, scores.size(), [&](size_t begin, size_t end) {
    const float most = Largest(scores.subspan(begin, end - begin));
    if (best && most <= best->score) return;
    const auto at = std::find(scores.begin() + begin, scores.begin() + end, most);
    best = {most, static_cast<int32_t>(at - scores.begin())};
  });
  return best;
}

// Candidates in order, found only as far as somebody reads: most draws end within the first few of 49,152. Each search
// takes the next lower band of scores and sorts what lies in it.
class Ordered {
 public:
  // `band` is the height of the first one; each further one is twice as high.
  Ordered(absl::Span<const float> scores, absl::Span<const IdRange> selectable, float best, float band)
      : scores_(scores), selectable_(selectable), low_(best), band_(std::max(band, kLeastBand)) {}

  // REQUIRES: there are more than `i` candidates.
  const Candidate& operator[](size_t i) {
    while (i >= found_.size()) SearchNextBand();
    return found_[i];
  }

 private:
  static constexpr float kLeastBand = 0.0625f;

  void SearchNextBand() {
    const float high = found_.empty() ? std::numeric_limits<float>::infinity() : low_;
    const float low = low_ - band_;
    const size_t sorted = found_.size();
    ForRanges(selectable_, scores_.size(), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        if (scores_[i] >= low && scores_[i] < high) found_.push_back({scores_[i], static_cast<int32_t>(i)});
    });
    std::sort(found_.begin() + sorted, found_.end(), Before);
    low_ = low;
    band_ *= 2;
  }

  const absl::Span<const float> scores_;
  const absl::Span<const IdRange> selectable_;
  float low_, band_;
  std::vector<Candidate> found_;
};

// out[i] = exp((logits[i] - best) / temperature), the same bits from any set of kernels.
std::vector<float> Weights(absl::Span<const float> logits, float best, float temperature) {
  static const kernels::Kernels& kernels = kernels::KernelsFor(kernels::BestIsa());
  std::vector<float> weights(logits.size());
  kernels.exp_scaled(logits.data(), static_cast<int>(logits.size()), best, temperature, weights.data());
  return weights;
}

// A fixed order of additions: kLanes sums by id modulo kLanes from the range's begin, then those in order.
double Sum(absl::Span<const float> weights) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += weights[i + lane];
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (; i < weights.size(); ++i) sum += weights[i];
  return sum;
}

// The best has weight 1, so min_p compares with weights directly.
int32_t Draw(absl::Span<const float> scores, absl::Span<const IdRange> selectable, float best,
             const SamplingParams& params, float uniform) {
  const std::vector<float> weights = Weights(scores, best, params.temperature);
  Ordered ordered(scores, selectable, best, 4 * params.temperature);
  // The mass that top_p is a share of: by id, or by rank where top_k has chosen.
  double total = 0;
  size_t kept = 0;
  ForRanges(selectable, scores.size(), [&](size_t begin, size_t end) {
    kept += end - begin;
    if (params.top_k == 0) total += Sum(absl::MakeConstSpan(weights).subspan(begin, end - begin));
  });
  const auto weight = [&](size_t rank) { return weights[ordered[rank].id]; };
  if (params.top_k > 0) {
    kept = std::min<size_t>(kept, params.top_k);
    for (size_t i = 0; i < kept; ++i) total += weight(i);
  }

  // Without a cut the walk below needs no kept prefix: its mass is the total.
  if (params.top_p < 1 || params.min_p > 0) {
    const double enough = params.top_p < 1 ? params.top_p * total : std::numeric_limits<double>::infinity();
    const size_t candidates = kept;
    double sum = 0;
    for (kept = 0; kept < candidates && sum < enough; ++kept) {
      const double w = weight(kept);
      if (w < params.min_p) break;
      sum += w;
    }
    total = sum;
  }

  const double target = uniform * total;
  double sum = 0;
  for (size_t i = 0; i + 1 < kept; ++i) {
    sum += weight(i);
    if (sum > target) return ordered[i].id;
  }
  return ordered[kept - 1].id;
}

std::optional<int32_t> Choose(const Candidates& candidates, const SamplingParams& params, uint64_t position) {
  const std::optional<Candidate> best = Greedy(candidates.scores, candidates.selectable);
  if (!best) return std::nullopt;
  if (params.temperature == 0) return best->id;
  return Draw(candidates.scores, candidates.selectable, best->score, params, RandomUniform(params.seed, 0, position));
}

void AddLogprobs(absl::Span<const float> logits, int count, Selection* selection) {
  const float best = Largest(logits);
  const float log_sum = kernels::Log(static_cast<float>(Sum(Weights(logits, best, 1))));
  const auto logprob = [&](float logit) { return (logit - best) - log_sum; };
  selection->logprob = logprob(logits[selection->token]);
  Ordered ordered(logits, {&kAllIds, 1}, best, 4);
  for (size_t i = 0; i < std::min<size_t>(count, logits.size()); ++i)
    selection->top.push_back({ordered[i].id, logprob(ordered[i].score)});
}

}  // namespace

absl::Status Validate(const SamplingParams& params) {
  // Written so that NaN fails each of them.
  if (!(params.temperature >= 0 && params.temperature <= 100))
    return absl::InvalidArgumentError(absl::StrCat("temperature is ", params.temperature, "; it must be 0 to 100"));
  if (!(params.top_p > 0 && params.top_p <= 1))
    return absl::InvalidArgumentError(absl::StrCat("top_p is ", params.top_p, "; it must be above 0 and at most 1"));
  if (!(params.min_p >= 0 && params.min_p <= 1))
    return absl::InvalidArgumentError(absl::StrCat("min_p is ", params.min_p, "; it must be 0 to 1"));
  return absl::OkStatus();
}

absl::StatusOr<Selection> Select(const Candidates& candidates, const SamplingParams& params, uint64_t position,
                                 int logprobs) {
  KV_RETURN_IF_ERROR(CheckFinite(candidates.logits, position));
  const std::optional<int32_t> token = Choose(candidates, params, position);
  if (!token)
    return absl::InternalError(absl::StrCat("no token is selectable for position ", position, ": none of the ",
                                            candidates.logits.size(), " of the vocabulary may be selected"));
  Selection selection{.token = *token, .logprob = 0, .top = {}};
  if (logprobs > 0) AddLogprobs(candidates.logits, logprobs, &selection);
  return selection;
}

float RandomUniform(uint64_t seed, uint32_t choice, uint64_t position) {
  const std::array<uint32_t, 4> random =
      Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<float>(random[0] >> 8) * 0x1p-24f;
}

}  // namespace kvrelay::sampling
