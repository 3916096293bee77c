#include "router/http/completion_request.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "router/http/json_fields.h"
#include "router/http/output_format_fields.h"
#include "router/http/prompt_fields.h"
#include "router/http/unsupported_fields.h"

namespace kvrelay::http {
namespace {

// OpenAI's defaults where they are not those of kvrelay.v1.
constexpr double kDefaultTemperature = 1;
constexpr uint32_t kDefaultCompletionTokens = 16;

constexpr int kLogprobsMax = 20;

// Of all prompts, each n times: a small request must not become much work.
constexpr size_t kCallBytesMax = 4 << 20;

// {"50256": -100}: ids are keys, and JSON's keys are strings.
void ReadLogitBias(Fields& fields, v1::SamplingParams* sampling) {
  const Json* const biases = fields.Find("logit_bias");
  if (biases == nullptr) return;
  constexpr char kMust[] = "an object of token ids, each once and with a number";
  if (!biases->is_object()) return fields.Fail("logit_bias", kMust);
  for (const auto& [key, bias] : biases->items()) {
    uint32_t id = 0;
    if (!absl::SimpleAtoi(key, &id) || !bias.is_number()) return fields.Fail("logit_bias", kMust);
    const bool first = sampling->mutable_logit_bias()->insert({id, static_cast<float>(bias.get<double>())}).second;
    if (!first) return fields.Fail("logit_bias", kMust);
  }
}

void ReadAllowedIds(Fields& fields, v1::SamplingParams* sampling) {
  if (fields.Find("allowed_token_ids") == nullptr) return;
  sampling->mutable_allowed_token_ids()->Swap(ReadTokenIds(fields, "allowed_token_ids").mutable_ids());
  // In kvrelay.v1 that would allow all.
  if (sampling->allowed_token_ids().empty()) fields.Fail("allowed_token_ids", "a list of token ids, and not empty");
}

void ReadPenalties(Fields& fields, v1::SamplingParams* sampling) {
  const auto number = [&fields](const char* name) { return static_cast<float>(fields.Number(name).value_or(0)); };
  sampling->set_presence_penalty(number("presence_penalty"));
  sampling->set_frequency_penalty(number("frequency_penalty"));
  if (fields.Find("repetition_penalty") != nullptr) sampling->set_repetition_penalty(number("repetition_penalty"));
}

void ReadSampling(Fields& fields, v1::SamplingParams* sampling) {
  sampling->set_temperature(static_cast<float>(fields.Number("temperature").value_or(kDefaultTemperature)));
  if (const auto top_p = fields.Number("top_p")) sampling->set_top_p(static_cast<float>(*top_p));
  if (const auto min_p = fields.Number("min_p")) sampling->set_min_p(static_cast<float>(*min_p));
  if (const auto seed = fields.Integer("seed", INT64_MIN, INT64_MAX)) sampling->set_seed(static_cast<uint64_t>(*seed));
  const int64_t top_k = fields.Integer("top_k", -1, UINT32_MAX).value_or(0);  // -1 keeps all, as 0
  sampling->set_top_k(static_cast<uint32_t>(std::max<int64_t>(top_k, 0)));
  ReadPenalties(fields, sampling);
  ReadLogitBias(fields, sampling);
  ReadAllowedIds(fields, sampling);
}

void ReadStop(Fields& fields, v1::GenerateRequest& request) {
  const Json* const stop = fields.Find("stop");
  if (stop == nullptr) return;
  const auto add = [&](const Json& one) {
    if (one.is_string()) {
      request.add_stop(one.get<std::string>());
    } else {
      fields.Fail("stop", "a string or a list of strings");
    }
  };
  if (!stop->is_array()) return add(*stop);
  for (const Json& one : *stop) add(one);
}

void ReadMaxTokens(Api api, Fields& fields, v1::GenerateRequest& request) {
  const auto max_tokens = fields.Integer("max_tokens", 1, INT32_MAX);
  const auto newer = api == Api::kChat ? fields.Integer("max_completion_tokens", 1, INT32_MAX) : std::nullopt;
  if (newer || max_tokens) {
    request.set_max_tokens(static_cast<uint32_t>(newer ? *newer : *max_tokens));
  } else if (api == Api::kCompletions) {
    request.set_max_tokens(kDefaultCompletionTokens);
  }
}

void ReadCompletionLogprobs(Fields& fields, CompletionRequest& parsed) {
  const auto count = fields.Integer("logprobs", 0, kLogprobsMax);
  parsed.logprobs = count.has_value();
  parsed.top_logprobs = static_cast<int>(count.value_or(0));
}

void ReadChatLogprobs(Fields& fields, CompletionRequest& parsed) {
  parsed.logprobs = fields.Bool("logprobs").value_or(false);
  parsed.top_logprobs = static_cast<int>(fields.Integer("top_logprobs", 0, kLogprobsMax).value_or(0));
  if (parsed.top_logprobs > 0 && !parsed.logprobs) fields.Fail("top_logprobs", "left out unless logprobs is true");
}

// What all choices share.
v1::GenerateRequest ReadOptions(Api api, Fields& fields, const std::string& body) {
  v1::GenerateRequest request;
  request.set_model(fields.String("model").value_or(""));
  ReadSampling(fields, request.mutable_sampling());
  ReadStop(fields, request);
  ReadOutputFormat(fields, body, request);
  ReadMaxTokens(api, fields, request);
  request.set_min_tokens(static_cast<uint32_t>(fields.Integer("min_tokens", 0, UINT32_MAX).value_or(0)));
  request.mutable_stop_token_ids()->Swap(ReadTokenIds(fields, "stop_token_ids").mutable_ids());
  request.set_truncate_prompt_tokens(
      static_cast<uint32_t>(fields.Integer("truncate_prompt_tokens", 1, UINT32_MAX).value_or(0)));
  request.set_include_control(!fields.Bool("skip_special_tokens").value_or(true));
  request.set_include_stop(fields.Bool("include_stop_str_in_output").value_or(false));
  request.set_cache_salt(fields.String("cache_salt").value_or(""));
  request.set_ignore_eos(fields.Bool("ignore_eos").value_or(false));
  request.set_priority(static_cast<int32_t>(fields.Integer("priority", INT32_MIN, INT32_MAX).value_or(0)));
  return request;
}

void ReadStream(Fields& fields, CompletionRequest& parsed) {
  parsed.stream = fields.Bool("stream").value_or(false);
  const Json* const options = fields.Find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields.Fail("stream_options", "an object");
  if (!parsed.stream) return fields.Fail("stream_options", "left out unless stream is true");
  Fields inner(*options, "stream_options.");
  parsed.include_usage = inner.Bool("include_usage").value_or(false);
  if (inner.error()) fields.Fail(*inner.error());
}

std::vector<v1::GenerateRequest> ReadCalls(Api api, Fields& fields) {
  if (api == Api::kCompletions) return ReadPrompts(fields);
  std::vector<v1::GenerateRequest> one(1);
  *one[0].mutable_chat() = ReadMessages(fields);
  return one;
}

// Every prompt `n` times, with the options, an id and a seed of its own.
void AddCalls(const std::vector<v1::GenerateRequest>& prompts, const v1::GenerateRequest& options,
              const std::string& request_id, CompletionRequest& parsed) {
  const int n = parsed.choices_per_prompt;
  const bool several = prompts.size() * static_cast<size_t>(n) > 1;
  for (const v1::GenerateRequest& prompt : prompts) {
    for (int i = 0; i < n; ++i) {
      v1::GenerateRequest& call = parsed.calls.emplace_back(options);
      call.MergeFrom(prompt);
      call.set_request_id(several ? absl::StrCat(request_id, "-", parsed.calls.size()) : request_id);
      if (options.sampling().has_seed()) {
        call.mutable_sampling()->set_seed(options.sampling().seed() + static_cast<uint64_t>(i));
      }
    }
  }
}

}  // namespace

Result<CompletionRequest> ParseCompletionRequest(Api api, const std::string& body, const std::string& request_id) {
  const Result<Json> object = ParseObject(body);
  if (const auto* error = std::get_if<ApiError>(&object)) return *error;
  Fields fields(std::get<Json>(object));
  CompletionRequest parsed{.api = api};
  RefuseUnsupported(fields);
  const std::vector<v1::GenerateRequest> prompts = ReadCalls(api, fields);
  v1::GenerateRequest options = ReadOptions(api, fields, body);
  ReadStream(fields, parsed);
  if (api == Api::kCompletions) {
    ReadCompletionLogprobs(fields, parsed);
    parsed.echo = fields.Bool("echo").value_or(false);
    if (parsed.echo && parsed.logprobs) {
      fields.Fail("logprobs", "left out where echo is true: prompts have none here");
    }
  } else {
    ReadChatLogprobs(fields, parsed);
  }
  options.set_logprobs(parsed.logprobs ? static_cast<uint32_t>(std::max(parsed.top_logprobs, 1)) : 0);
  parsed.choices_per_prompt = static_cast<int>(fields.Integer("n", 1, kChoicesMax).value_or(1));
  if (prompts.size() * static_cast<size_t>(parsed.choices_per_prompt) > kChoicesMax) {
    fields.Fail("prompt", absl::StrCat("at most ", kChoicesMax, " choices in all, prompts x n"));
  }
  size_t bytes = 0;
  for (const v1::GenerateRequest& prompt : prompts) bytes += prompt.ByteSizeLong();
  if (bytes * static_cast<size_t>(parsed.choices_per_prompt) > kCallBytesMax) {
    fields.Fail("n",
                absl::StrCat("smaller, or the prompts shorter: all prompts x n may have ", kCallBytesMax, " bytes"));
  }
  if (fields.error()) return *fields.error();
  AddCalls(prompts, options, request_id, parsed);
  return parsed;
}

}  // namespace kvrelay::http
