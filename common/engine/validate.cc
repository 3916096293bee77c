#include "common/engine/validate.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::engine {
namespace {

absl::Status CheckIds(const std::vector<int32_t>& ids, int vocabulary, const char* what) {
  for (int32_t id : ids)
    if (id < 0 || id >= vocabulary)
      return absl::InvalidArgumentError(absl::StrCat(what, " ", id, " is outside the vocabulary of ", vocabulary));
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSpec(const SessionSpec& spec, int vocabulary, int context_length) {
  if (spec.tokens.empty() || spec.prompt_length == 0) return absl::InvalidArgumentError("the prompt is empty");
  if (spec.prompt_length > spec.tokens.size())
    return absl::InvalidArgumentError(
        absl::StrCat("prompt_length ", spec.prompt_length, " exceeds the ", spec.tokens.size(), " token ids"));
  const uint64_t history = spec.tokens.size() - spec.prompt_length;
  if (history >= spec.end_rule.max_tokens)
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens ", spec.end_rule.max_tokens, " leaves nothing to select after ", history, " tokens"));
  if (uint64_t{spec.prompt_length} + spec.end_rule.max_tokens > static_cast<uint64_t>(context_length))
    return absl::InvalidArgumentError(absl::StrCat("prompt of ", spec.prompt_length, " tokens + max_tokens ",
                                                   spec.end_rule.max_tokens, " exceed the context of ",
                                                   context_length));
  if (spec.end_rule.min_tokens > spec.end_rule.max_tokens)
    return absl::InvalidArgumentError(
        absl::StrCat("min_tokens ", spec.end_rule.min_tokens, " exceeds max_tokens ", spec.end_rule.max_tokens));
  if (spec.logprobs < 0 || spec.logprobs > 20)
    return absl::InvalidArgumentError(absl::StrCat("logprobs ", spec.logprobs, " is outside 0 to 20"));
  KV_RETURN_IF_ERROR(CheckIds(spec.tokens, vocabulary, "token id"));
  KV_RETURN_IF_ERROR(CheckIds(spec.end_rule.stop_ids, vocabulary, "stop token id"));
  return sampling::Validate(spec, vocabulary);
}

int PositionsNeeded(const SessionSpec& spec) {
  return static_cast<int>(spec.stop_after_first ? spec.tokens.size() : spec.prompt_length + spec.end_rule.max_tokens);
}

}  // namespace kvrelay::engine
