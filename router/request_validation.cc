#include "router/request_validation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "router/output_format.h"

namespace kvrelay::router {
namespace {

constexpr size_t kRequestIdBytesMax = 128;
constexpr size_t kPromptBytesMax = 1 << 20;
constexpr int kMessagesMax = 1024;
constexpr size_t kRoleBytesMax = 64;
constexpr int kStopStringsMax = 16;
constexpr size_t kStopBytesMax = 256;
constexpr int kStopIdsMax = 64;
constexpr size_t kLogitBiasesMax = 1024;
constexpr int kAllowedIdsMax = 16384;
constexpr float kLogitBiasMax = 100;
constexpr float kRepetitionPenaltyMax = 100;
constexpr float kAdditivePenaltyMax = 2;
constexpr uint32_t kLogprobsMax = 20;
constexpr int32_t kPriorityMax = 10;
constexpr size_t kCacheSaltBytesMax = 64;
constexpr float kTemperatureMax = 100;
constexpr uint32_t kDefaultMaxTokens = 256;
constexpr int kDetokenizeIdsMax = 1 << 20;

// "temperature is nan, it must be a number from 0 to 100"
template <typename Value>
absl::Status Bad(absl::string_view field, const Value& value, absl::string_view limit) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", it must be ", limit));
}

template <typename Ids>
absl::Status CheckIds(absl::string_view field, const Ids& ids, uint32_t vocabulary_size) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocabulary_size) {
      return Bad(absl::StrCat(field, "[", i, "]"), ids[i],
                 absl::StrCat("below the vocabulary size, ", vocabulary_size));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckText(const std::string& text) {
  if (text.size() > kPromptBytesMax) {
    return Bad("text", absl::StrCat(text.size(), " bytes long"), absl::StrCat("at most ", kPromptBytesMax, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckChat(const v1::Chat& chat) {
  if (chat.messages_size() < 1 || chat.messages_size() > kMessagesMax) {
    return Bad("chat.messages", absl::StrCat(chat.messages_size(), " messages long"),
               absl::StrCat("1 to ", kMessagesMax, " messages"));
  }
  size_t bytes = 0;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const std::string& role = chat.messages(i).role();
    if (role.empty() || role.size() > kRoleBytesMax) {
      return Bad(absl::StrCat("chat.messages[", i, "].role"), absl::StrCat(role.size(), " bytes long"),
                 absl::StrCat("1 to ", kRoleBytesMax, " bytes"));
    }
    bytes += role.size() + chat.messages(i).content().size();
  }
  if (bytes > kPromptBytesMax) {
    return Bad("chat", absl::StrCat(bytes, " bytes long"), absl::StrCat("at most ", kPromptBytesMax, " bytes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(const v1::Chat& chat, const ServedModel& model) {
  KV_RETURN_IF_ERROR(CheckChat(chat));
  std::vector<text::ChatMessage> messages;
  for (const v1::ChatMessage& message : chat.messages()) messages.push_back({message.role(), message.content()});
  return model.EncodeChat(messages);
}

absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text, const ServedModel& model) {
  KV_RETURN_IF_ERROR(CheckText(text));
  return model.EncodeText(text);
}

absl::Status CheckSampling(const v1::SamplingParams& sampling) {
  // Written so that NaN fails.
  if (!(sampling.temperature() >= 0 && sampling.temperature() <= kTemperatureMax)) {
    return Bad("sampling.temperature", sampling.temperature(), absl::StrCat("a number from 0 to ", kTemperatureMax));
  }
  if (sampling.has_top_p() && !(sampling.top_p() > 0 && sampling.top_p() <= 1)) {
    return Bad("sampling.top_p", sampling.top_p(), "above 0 and at most 1");
  }
  if (!(sampling.min_p() >= 0 && sampling.min_p() <= 1)) {
    return Bad("sampling.min_p", sampling.min_p(), "a number from 0 to 1");
  }
  return absl::OkStatus();
}

absl::Status CheckPenalties(const v1::SamplingParams& sampling) {
  const float repetition = sampling.repetition_penalty();
  if (sampling.has_repetition_penalty() && !(repetition > 0 && repetition <= kRepetitionPenaltyMax)) {
    return Bad("sampling.repetition_penalty", repetition, absl::StrCat("above 0 and at most ", kRepetitionPenaltyMax));
  }
  const std::pair<const char*, float> additive[] = {{"sampling.presence_penalty", sampling.presence_penalty()},
                                                    {"sampling.frequency_penalty", sampling.frequency_penalty()}};
  for (const auto& [field, penalty] : additive) {
    if (!(std::abs(penalty) <= kAdditivePenaltyMax)) {
      return Bad(field, penalty, absl::StrCat("a number from ", -kAdditivePenaltyMax, " to ", kAdditivePenaltyMax));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLogitBias(const v1::SamplingParams& sampling, uint32_t vocabulary_size) {
  if (sampling.logit_bias().size() > kLogitBiasesMax) {
    return Bad("sampling.logit_bias", absl::StrCat(sampling.logit_bias().size(), " biases long"),
               absl::StrCat("at most ", kLogitBiasesMax, " biases"));
  }
  for (const auto& [id, bias] : sampling.logit_bias()) {
    if (id >= vocabulary_size) {
      return Bad("sampling.logit_bias", absl::StrCat("for token id ", id),
                 absl::StrCat("for ids below the vocabulary size, ", vocabulary_size));
    }
    if (!(std::abs(bias) <= kLogitBiasMax)) {
      return Bad(absl::StrCat("sampling.logit_bias[", id, "]"), bias,
                 absl::StrCat("a number from ", -kLogitBiasMax, " to ", kLogitBiasMax));
    }
  }
  return absl::OkStatus();
}

// What ends the request, and is not selectable before min_tokens.
std::set<uint32_t> EndIds(const v1::GenerateRequest& request, const ModelFacts& facts) {
  std::set<uint32_t> ends(request.stop_token_ids().begin(), request.stop_token_ids().end());
  if (!request.ignore_eos()) ends.insert(facts.eos_ids.begin(), facts.eos_ids.end());
  return ends;
}

absl::Status CheckAllowedIds(const v1::GenerateRequest& request, const ModelFacts& facts) {
  const auto& allowed = request.sampling().allowed_token_ids();
  if (allowed.size() > kAllowedIdsMax) {
    return Bad("sampling.allowed_token_ids", absl::StrCat(allowed.size(), " ids long"),
               absl::StrCat("at most ", kAllowedIdsMax, " ids"));
  }
  KV_RETURN_IF_ERROR(CheckIds("sampling.allowed_token_ids", allowed, facts.vocabulary_size));
  if (allowed.empty() || request.min_tokens() == 0) return absl::OkStatus();
  const std::set<uint32_t> ends = EndIds(request, facts);
  if (std::any_of(allowed.begin(), allowed.end(), [&](uint32_t id) { return !ends.contains(id); })) {
    return absl::OkStatus();
  }
  return Bad(
      "sampling.allowed_token_ids", "of end tokens alone",
      absl::StrCat("a list with others too: no end token is selectable before min_tokens = ", request.min_tokens()));
}

absl::Status CheckStops(const v1::GenerateRequest& request, const ModelFacts& facts) {
  if (request.stop_size() > kStopStringsMax) {
    return Bad("stop", absl::StrCat(request.stop_size(), " strings long"),
               absl::StrCat("at most ", kStopStringsMax, " strings"));
  }
  for (int i = 0; i < request.stop_size(); ++i) {
    const size_t bytes = request.stop(i).size();
    if (bytes < 1 || bytes > kStopBytesMax) {
      return Bad(absl::StrCat("stop[", i, "]"), absl::StrCat(bytes, " bytes long"),
                 absl::StrCat("1 to ", kStopBytesMax, " bytes"));
    }
  }
  if (request.stop_token_ids_size() > kStopIdsMax) {
    return Bad("stop_token_ids", absl::StrCat(request.stop_token_ids_size(), " ids long"),
               absl::StrCat("at most ", kStopIdsMax, " ids"));
  }
  return CheckIds("stop_token_ids", request.stop_token_ids(), facts.vocabulary_size);
}

absl::Status CheckOptions(const v1::GenerateRequest& request, const ModelFacts& facts) {
  KV_RETURN_IF_ERROR(CheckModelName(request.model(), facts));
  if (request.request_id().size() > kRequestIdBytesMax) {
    return Bad("request_id", absl::StrCat(request.request_id().size(), " bytes long"),
               absl::StrCat("at most ", kRequestIdBytesMax, " bytes"));
  }
  KV_RETURN_IF_ERROR(CheckSampling(request.sampling()));
  KV_RETURN_IF_ERROR(CheckPenalties(request.sampling()));
  KV_RETURN_IF_ERROR(CheckLogitBias(request.sampling(), facts.vocabulary_size));
  KV_RETURN_IF_ERROR(CheckStops(request, facts));
  KV_RETURN_IF_ERROR(CheckAllowedIds(request, facts));
  if (!v1::Execution_IsValid(request.execution())) {
    return Bad("execution", static_cast<int>(request.execution()), "one of the values of Execution");
  }
  if (request.logprobs() > kLogprobsMax) {
    return Bad("logprobs", request.logprobs(), absl::StrCat("at most ", kLogprobsMax));
  }
  if (request.priority() < -kPriorityMax || request.priority() > kPriorityMax) {
    return Bad("priority", request.priority(), absl::StrCat("from ", -kPriorityMax, " to ", kPriorityMax));
  }
  if (request.cache_salt().size() > kCacheSaltBytesMax) {
    return Bad("cache_salt", absl::StrCat(request.cache_salt().size(), " bytes long"),
               absl::StrCat("at most ", kCacheSaltBytesMax, " bytes"));
  }
  if (request.has_max_tokens() && request.max_tokens() == 0) return Bad("max_tokens", 0, "at least 1");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> PromptIds(const v1::GenerateRequest& request, const ServedModel& model) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      return EncodeText(request.text(), model);
    case v1::GenerateRequest::kChat:
      return EncodeChat(request.chat(), model);
    case v1::GenerateRequest::kTokenIds: {
      const auto& ids = request.token_ids().ids();
      KV_RETURN_IF_ERROR(CheckIds("token_ids.ids", ids, model.facts().vocabulary_size));
      return std::vector<int32_t>(ids.begin(), ids.end());
    }
    default:
      return absl::InvalidArgumentError("no prompt is set: text, token_ids or chat is needed");
  }
}

// Drops what is too much from the front, but not a BOS token that is there by the model's rule.
void Truncate(const v1::GenerateRequest& request, const ModelFacts& facts, std::vector<int32_t>& prompt) {
  const size_t most = request.truncate_prompt_tokens();
  if (most == 0 || prompt.size() <= most) return;
  const bool keeps_bos = request.has_text() && facts.adds_bos;
  const auto first = prompt.begin() + (keeps_bos ? 1 : 0);
  prompt.erase(first, first + static_cast<std::ptrdiff_t>(prompt.size() - most));
}

// The number of tokens to select, given or by default; prompt and tokens fit into the context.
absl::StatusOr<uint32_t> MaxTokens(const v1::GenerateRequest& request, size_t prompt, uint32_t context) {
  if (prompt == 0) return absl::InvalidArgumentError("the prompt is empty: it must give at least one token");
  if (prompt >= context) {
    return Bad("the prompt", absl::StrCat(prompt, " tokens long"),
               absl::StrCat("shorter than the model's context of ", context, " tokens"));
  }
  const uint32_t room = context - static_cast<uint32_t>(prompt);
  if (!request.has_max_tokens()) return std::min(kDefaultMaxTokens, room);
  if (request.max_tokens() > room) {
    return Bad(
        "max_tokens", request.max_tokens(),
        absl::StrCat("at most ", room, ": the model's context of ", context, " tokens less the prompt's ", prompt));
  }
  return request.max_tokens();
}

absl::Status CheckResume(const v1::GenerateRequest& request, uint32_t max_tokens, const ModelFacts& facts) {
  const auto& ids = request.resume().token_ids();
  if (static_cast<uint32_t>(ids.size()) > max_tokens - 1) {
    return Bad("resume.token_ids", absl::StrCat(ids.size(), " ids long"),
               absl::StrCat("at most max_tokens - 1 = ", max_tokens - 1, " ids"));
  }
  KV_RETURN_IF_ERROR(CheckIds("resume.token_ids", ids, facts.vocabulary_size));
  if (request.sampling().has_seed() && request.sampling().seed() != request.resume().seed()) {
    return Bad("resume.seed", request.resume().seed(),
               absl::StrCat("that of the request, sampling.seed = ", request.sampling().seed()));
  }
  const std::set<uint32_t> ends = EndIds(request, facts);
  for (int i = 0; i < ids.size(); ++i) {
    if (ends.contains(ids[i])) {
      return Bad(absl::StrCat("resume.token_ids[", i, "]"), ids[i],
                 "no token that ends the request: the interrupted stream had ended with it");
    }
  }
  return absl::OkStatus();
}

void SetSampling(const v1::SamplingParams& sampling, uint64_t drawn_seed, wire::GenerationSpec* spec) {
  spec->set_temperature(sampling.temperature());
  spec->set_top_k(sampling.top_k());
  spec->set_top_p(sampling.has_top_p() ? sampling.top_p() : 1);
  spec->set_min_p(sampling.min_p());
  spec->set_seed(sampling.has_seed() ? sampling.seed() : drawn_seed);
  if (sampling.has_repetition_penalty()) spec->set_repetition_penalty(sampling.repetition_penalty());
  spec->set_presence_penalty(sampling.presence_penalty());
  spec->set_frequency_penalty(sampling.frequency_penalty());
  *spec->mutable_logit_bias() = sampling.logit_bias();
  *spec->mutable_allowed_token_ids() = sampling.allowed_token_ids();
}

}  // namespace

absl::Status CheckModelName(const std::string& name, const ModelFacts& facts) {
  if (name.empty() || name == facts.name) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("model '", name.substr(0, 128), "' is not served here, '", facts.name, "' is"));
}

absl::StatusOr<FlowRequest> ToFlowRequest(const v1::GenerateRequest& request, const ServedModel& model,
                                          uint64_t drawn_seed, const std::string& made_id) {
  const ModelFacts& facts = model.facts();
  KV_RETURN_IF_ERROR(CheckOptions(request, facts));
  KV_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, PromptIds(request, model));
  Truncate(request, facts, prompt);
  KV_ASSIGN_OR_RETURN(const uint32_t max_tokens, MaxTokens(request, prompt.size(), facts.context_length));
  if (request.min_tokens() > max_tokens) {
    return Bad("min_tokens", request.min_tokens(), absl::StrCat("at most max_tokens = ", max_tokens));
  }
  FlowRequest flow;
  flow.request_id = request.request_id().empty() ? made_id : request.request_id();
  flow.execution = request.execution();
  flow.stop.assign(request.stop().begin(), request.stop().end());
  flow.include_stop = request.include_stop();
  flow.include_control = request.include_control();
  wire::GenerationSpec& spec = flow.spec;
  spec.mutable_token_ids()->Add(prompt.begin(), prompt.end());
  spec.set_prompt_length(static_cast<uint32_t>(prompt.size()));
  SetSampling(request.sampling(), drawn_seed, &spec);
  spec.set_max_tokens(max_tokens);
  spec.set_min_tokens(request.min_tokens());
  *spec.mutable_stop_token_ids() = request.stop_token_ids();
  spec.set_ignore_eos(request.ignore_eos());
  spec.set_logprobs(request.logprobs());
  spec.set_trace(request.trace());
  spec.set_priority(request.priority());
  spec.set_cache_salt(request.cache_salt());
  KV_RETURN_IF_ERROR(SetOutputFormat(request, model, &spec));
  if (request.has_resume()) {
    KV_RETURN_IF_ERROR(CheckResume(request, max_tokens, facts));
    spec.mutable_token_ids()->MergeFrom(request.resume().token_ids());
    spec.set_seed(request.resume().seed());
  }
  return flow;
}

absl::StatusOr<std::vector<int32_t>> TokenizePrompt(const v1::TokenizeRequest& request, const ServedModel& model) {
  KV_RETURN_IF_ERROR(CheckModelName(request.model(), model.facts()));
  switch (request.prompt_case()) {
    case v1::TokenizeRequest::kText:
      return EncodeText(request.text(), model);
    case v1::TokenizeRequest::kChat:
      return EncodeChat(request.chat(), model);
    default:
      return absl::InvalidArgumentError("no prompt is set: text or chat is needed");
  }
}

absl::Status CheckDetokenize(const v1::DetokenizeRequest& request, const ModelFacts& facts) {
  KV_RETURN_IF_ERROR(CheckModelName(request.model(), facts));
  if (request.ids_size() > kDetokenizeIdsMax) {
    return Bad("ids", absl::StrCat(request.ids_size(), " ids long"),
               absl::StrCat("at most ", kDetokenizeIdsMax, " ids"));
  }
  return CheckIds("ids", request.ids(), facts.vocabulary_size);
}

}  // namespace kvrelay::router
