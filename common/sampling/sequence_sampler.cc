#include "common/sampling/sequence_sampler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::sampling {
namespace {

size_t Left(const EndRule& rule, size_t selected) {
  return rule.max_tokens - std::min<size_t>(selected, rule.max_tokens);
}

}  // namespace

absl::Status Validate(const SelectionSpec& spec, int vocabulary) {
  KV_RETURN_IF_ERROR(Validate(spec.sampling));
  KV_RETURN_IF_ERROR(Validate(spec.logit_options, vocabulary));
  for (const int32_t id : spec.allowed_ids) {
    if (id < 0 || id >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat("allowed_token_ids has ", id, "; ids are 0 to ", vocabulary - 1));
    }
  }
  if (spec.allowed_ids.empty() || !SelectableIds(spec.allowed_ids, BannedIds(spec.end_rule, 0)).empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("allowed_token_ids are all end tokens, and none of these is selectable before min_tokens = ",
                   spec.end_rule.min_tokens));
}

SequenceSampler::SequenceSampler(const SelectionSpec* spec, absl::Span<const int32_t> history, size_t prompt_length)
    : spec_(*spec),
      prompt_length_(prompt_length),
      next_index_(static_cast<uint32_t>(history.size() - prompt_length)),
      selectable_at_first_(SelectableIds(spec_.allowed_ids, BannedIds(spec_.end_rule, next_index_))),
      selectable_(SelectableIds(spec_.allowed_ids, {})),
      adjuster_(spec_.logit_options, history, prompt_length, Left(spec_.end_rule, next_index_)) {
  if (spec_.grammar != nullptr) FollowGrammar(history.subspan(spec_.grammar_accepted));
}

void SequenceSampler::FollowGrammar(absl::Span<const int32_t> history) {
  absl::StatusOr<std::unique_ptr<OutputGrammar>> copy = spec_.grammar->Copy();
  grammar_problem_ = copy.status();
  if (!copy.ok()) return;
  grammar_ = *std::move(copy);
  for (const int32_t token : history) {
    if (grammar_problem_.ok()) grammar_problem_ = grammar_->Accept(token);
  }
}

absl::Status SequenceSampler::ApplyGrammar(size_t vocabulary) {
  KV_RETURN_IF_ERROR(grammar_problem_);
  grammar_mask_.resize((vocabulary + 31) / 32);
  KV_RETURN_IF_ERROR(grammar_->Mask(absl::MakeSpan(grammar_mask_)));
  RangesOfMask(grammar_mask_, static_cast<int32_t>(vocabulary), &selectable_);
  if (selectable_.empty())
    return absl::InvalidArgumentError("no token goes on with the text that the grammar describes");
  return absl::OkStatus();
}

absl::StatusOr<Selection> SequenceSampler::Select(absl::Span<const float> logits, std::vector<float>* scores) {
  if (spec_.grammar != nullptr) KV_RETURN_IF_ERROR(ApplyGrammar(logits.size()));
  const Candidates candidates{
      .logits = logits,
      .scores = adjuster_.Adjust(logits, scores),
      .selectable = next_index_ < spec_.end_rule.min_tokens ? selectable_at_first_ : selectable_};
  KV_ASSIGN_OR_RETURN(Selection selection,
                      sampling::Select(candidates, spec_.sampling, prompt_length_ + next_index_, spec_.logprobs));
  adjuster_.Add(selection.token);
  const auto& ends = spec_.end_rule.eos_ids;
  if (grammar_ != nullptr && std::find(ends.begin(), ends.end(), selection.token) == ends.end()) {
    KV_RETURN_IF_ERROR(grammar_->Accept(selection.token));
  }
  ++next_index_;
  return selection;
}

}  // namespace kvrelay::sampling
