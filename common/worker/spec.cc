#include "common/worker/spec.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"

namespace kvrelay::worker {
namespace {

template <typename Ids>
absl::Status CheckIds(const char* field, const Ids& ids, int limit, int vocabulary) {
  if (ids.size() > limit) {
    return absl::InvalidArgumentError(absl::StrCat(field, " has ", ids.size(), " ids, more than ", limit));
  }
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= static_cast<uint32_t>(vocabulary)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, "[", i, "] is ", ids[i], ", outside the vocabulary of ", vocabulary));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAtMost(const char* field, uint64_t value, uint64_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", more than ", limit));
}

sampling::LogitOptions LogitOptionsOf(const v1::GenerationSpec& spec) {
  sampling::LogitOptions options{
      .repetition_penalty = spec.has_repetition_penalty() ? spec.repetition_penalty() : 1,
      .presence_penalty = spec.presence_penalty(),
      .frequency_penalty = spec.frequency_penalty(),
      .bias = {},
  };
  // An id of over 31 bits becomes a negative one, which no vocabulary has.
  for (const auto& [id, bias] : spec.logit_bias()) options.bias.emplace_back(static_cast<int32_t>(id), bias);
  return options;
}

absl::Status SetGrammar(const v1::GenerationSpec& spec, const WorkerContext& context, engine::SessionSpec* result) {
  using Language = text::GrammarLanguage;
  struct Format {
    const char* field;
    Language language;
    const std::string* source;
  };
  const auto format = [&]() -> Format {
    switch (spec.output_format_case()) {
      case v1::GenerationSpec::kJsonSchema:
        return {"json_schema", Language::kJsonSchema, &spec.json_schema()};
      case v1::GenerationSpec::kRegex:
        return {"regex", Language::kRegex, &spec.regex()};
      default:
        return {"lark_grammar", Language::kLark, &spec.lark_grammar()};
    }
  }();
  if (spec.ignore_eos() || spec.min_tokens() > 0 || spec.allowed_token_ids_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(format.field, " cannot go with ignore_eos, min_tokens or allowed_token_ids"));
  }
  if (context.grammars == nullptr) {
    return absl::UnimplementedError(absl::StrCat(format.field, ": this worker has no vocabulary for grammars"));
  }
  const auto output = absl::MakeConstSpan(result->tokens).subspan(result->prompt_length);
  const auto grammar = context.grammars->Get(format.language, *format.source, output);
  if (!grammar.ok()) {
    return absl::Status(grammar.status().code(),
                        absl::StrCat(format.field, " cannot be used: ", grammar.status().message()));
  }
  result->grammar = *grammar;
  result->grammar_accepted = result->tokens.size();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<engine::SessionSpec> ParseSpec(const v1::GenerationSpec& spec, const WorkerContext& context) {
  KV_RETURN_IF_ERROR(CheckIds("token_ids", spec.token_ids(), context.engine->context_length(), context.vocabulary));
  KV_RETURN_IF_ERROR(CheckIds("stop_token_ids", spec.stop_token_ids(), kMaxStopTokenIds, context.vocabulary));
  KV_RETURN_IF_ERROR(CheckIds("allowed_token_ids", spec.allowed_token_ids(), kMaxAllowedTokenIds, context.vocabulary));
  KV_RETURN_IF_ERROR(CheckAtMost("number of logit_bias", spec.logit_bias().size(), kMaxLogitBiases));
  KV_RETURN_IF_ERROR(CheckAtMost("prompt_length", spec.prompt_length(), spec.token_ids_size()));
  KV_RETURN_IF_ERROR(CheckAtMost("logprobs", spec.logprobs(), kMaxLogprobs));
  KV_RETURN_IF_ERROR(CheckAtMost("cache_salt bytes", spec.cache_salt().size(), kMaxCacheSaltBytes));
  KV_RETURN_IF_ERROR(CheckAtMost("min_tokens", spec.min_tokens(), spec.max_tokens()));
  if (spec.prompt_length() == 0) return absl::InvalidArgumentError("prompt_length is 0; a prompt has at least 1 token");
  if (spec.max_tokens() == 0) return absl::InvalidArgumentError("max_tokens is 0; at least 1 is selected");
  engine::SessionSpec result;
  result.tokens.assign(spec.token_ids().begin(), spec.token_ids().end());
  result.prompt_length = spec.prompt_length();
  result.sampling = {.temperature = spec.temperature(),
                     .top_k = spec.top_k(),
                     .top_p = spec.top_p(),
                     .min_p = spec.min_p(),
                     .seed = spec.seed()};
  result.logit_options = LogitOptionsOf(spec);
  result.allowed_ids.assign(spec.allowed_token_ids().begin(), spec.allowed_token_ids().end());
  if (!spec.ignore_eos()) result.end_rule.eos_ids = context.eos_ids;
  result.end_rule.stop_ids.assign(spec.stop_token_ids().begin(), spec.stop_token_ids().end());
  result.end_rule.max_tokens = spec.max_tokens();
  result.end_rule.min_tokens = spec.min_tokens();
  KV_RETURN_IF_ERROR(sampling::Validate(result, context.vocabulary));
  result.logprobs = static_cast<int>(spec.logprobs());
  if (spec.priority() < -kMaxPriority || spec.priority() > kMaxPriority)
    return absl::InvalidArgumentError(
        absl::StrCat("priority is ", spec.priority(), ", it must be -", kMaxPriority, " to ", kMaxPriority));
  result.priority = spec.priority();
  result.cache_salt = spec.cache_salt();
  if (spec.output_format_case() != v1::GenerationSpec::OUTPUT_FORMAT_NOT_SET) {
    KV_RETURN_IF_ERROR(SetGrammar(spec, context, &result));
  }
  return result;
}

absl::Status CheckHandoffId(const std::string& id) {
  if (id.size() == kHandoffIdBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("handoff_id has ", id.size(), " bytes, it must have ", kHandoffIdBytes));
}

absl::Status CheckInstance(const std::string& field, const std::string& instance) {
  constexpr size_t kMaxBytes = 256;
  if (!instance.empty() && instance.size() <= kMaxBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", instance.size(), " bytes, it must have 1 to ", kMaxBytes));
}

absl::Status CheckKvTarget(const std::string& address, const std::string& instance) {
  KV_RETURN_IF_ERROR(CheckInstance("decode_instance", instance));
  KV_ASSIGN_OR_RETURN(const rpc::HostPort parsed, rpc::ParseHostPort(address));
  if (parsed.port != 0) return absl::OkStatus();
  return absl::InvalidArgumentError("kv_address has port 0");
}

}  // namespace kvrelay::worker
