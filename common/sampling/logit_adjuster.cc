#include "common/sampling/logit_adjuster.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::sampling {
namespace {

// OpenAI's limits; of the repetition penalty our own, above what anybody uses.
constexpr float kAdditivePenaltyMax = 2;
constexpr float kRepetitionPenaltyMax = 100;
constexpr float kBiasMax = 100;

// Written so that NaN fails.
absl::Status CheckSymmetric(absl::string_view field, float value, float limit) {
  if (value >= -limit && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", -limit, " to ", limit));
}

}  // namespace

bool LogitOptions::active() const {
  return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0 || !bias.empty();
}

absl::Status Validate(const LogitOptions& options, int vocabulary) {
  if (!(options.repetition_penalty > 0 && options.repetition_penalty <= kRepetitionPenaltyMax)) {
    return absl::InvalidArgumentError(absl::StrCat("repetition_penalty is ", options.repetition_penalty,
                                                   "; it must be above 0 and at most ", kRepetitionPenaltyMax));
  }
  KV_RETURN_IF_ERROR(CheckSymmetric("presence_penalty", options.presence_penalty, kAdditivePenaltyMax));
  KV_RETURN_IF_ERROR(CheckSymmetric("frequency_penalty", options.frequency_penalty, kAdditivePenaltyMax));
  for (const auto& [id, bias] : options.bias) {
    if (id < 0 || id >= vocabulary) {
      return absl::InvalidArgumentError(
          absl::StrCat("logit_bias has token id ", id, "; ids are 0 to ", vocabulary - 1));
    }
    KV_RETURN_IF_ERROR(CheckSymmetric(absl::StrCat("logit_bias[", id, "]"), bias, kBiasMax));
  }
  return absl::OkStatus();
}

LogitAdjuster::LogitAdjuster(const LogitOptions& options, absl::Span<const int32_t> history, size_t prompt_length,
                             size_t more)
    : repetition_(options.repetition_penalty),
      presence_(options.presence_penalty),
      frequency_(options.frequency_penalty),
      counts_output_(repetition_ != 1 || presence_ != 0 || frequency_ != 0) {
  // The prompt at once: token by token, a long one would be moved about for each of its own.
  if (repetition_ != 1) {
    std::vector<int32_t> prompt(history.begin(), history.begin() + prompt_length);
    std::sort(prompt.begin(), prompt.end());
    prompt.erase(std::unique(prompt.begin(), prompt.end()), prompt.end());
    for (const int32_t id : prompt) entries_.push_back({.id = id, .occurs = true});
  }
  const size_t output = counts_output_ ? history.size() - prompt_length + more : 0;
  entries_.reserve(entries_.size() + options.bias.size() + output);
  for (const auto& [id, bias] : options.bias) At(id).bias = bias;
  for (const int32_t token : history.subspan(prompt_length)) Add(token);
}

void LogitAdjuster::Add(int32_t token) {
  if (!counts_output_) return;
  Entry& entry = At(token);
  entry.occurs = true;
  ++entry.count;
}

absl::Span<const float> LogitAdjuster::Adjust(absl::Span<const float> logits, std::vector<float>* scores) const {
  if (entries_.empty()) return logits;
  scores->assign(logits.begin(), logits.end());
  for (const Entry& entry : entries_) (*scores)[entry.id] = Score(logits[entry.id], entry);
  return *scores;
}

LogitAdjuster::Entry& LogitAdjuster::At(int32_t id) {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), id,
                                   [](const Entry& entry, int32_t wanted) { return entry.id < wanted; });
  if (it != entries_.end() && it->id == id) return *it;
  return *entries_.insert(it, Entry{.id = id});
}

float LogitAdjuster::Score(float logit, const Entry& entry) const {
  float x = logit + entry.bias;
  if (entry.occurs) x = x < 0 ? x * repetition_ : x / repetition_;
  if (entry.count > 0) {
    x -= frequency_ * static_cast<float>(entry.count);
    x -= presence_;
  }
  constexpr float kLargest = std::numeric_limits<float>::max();
  return std::clamp(x, -kLargest, kLargest);
}

}  // namespace kvrelay::sampling
