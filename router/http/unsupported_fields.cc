#include "router/http/unsupported_fields.h"

namespace kvrelay::http {
namespace {

struct Option {
  const char* name;
  const char* neutral = "null";  // in JSON: asks for nothing, beside what is empty
  bool empty_is_neutral = true;
};

constexpr Option kOptions[] = {
    // OpenAI
    {"audio"},
    {"best_of", "1"},
    {"function_call", "\"none\""},
    {"functions"},
    {"modalities", "[\"text\"]"},
    {"suffix"},
    {"tool_choice", "\"none\""},
    {"tools"},
    {"web_search_options"},
    // vLLM
    {"add_generation_prompt", "true", false},
    {"add_special_tokens", "true", false},
    {"bad_words"},
    {"chat_template"},
    {"chat_template_kwargs"},
    {"continue_final_message"},
    {"documents"},
    {"guided_choice"},
    {"guided_grammar"},
    {"guided_json"},
    {"guided_regex"},
    {"length_penalty", "1.0"},
    {"prompt_embeds"},
    {"prompt_logprobs"},
    {"return_token_ids"},
    {"return_tokens_as_token_ids"},
    {"spaces_between_special_tokens", "true", false},
    {"use_beam_search"},
};

bool IsEmpty(const Json& value) {
  if (value.is_structured()) return value.empty();
  return value == Json(false) || value == Json(0) || value == Json("");
}

}  // namespace

void RefuseUnsupported(Fields& fields) {
  for (const Option& option : kOptions) {
    const Json* const value = fields.Find(option.name);
    if (value == nullptr || *value == Json::parse(option.neutral)) continue;
    if (option.empty_is_neutral && IsEmpty(*value)) continue;
    ApiError error{.status = 400,
                   .message = fields.Path(option.name) + " is not supported by this service",
                   .param = fields.Path(option.name),
                   .code = "unsupported_parameter"};
    return fields.Fail(std::move(error));
  }
}

}  // namespace kvrelay::http
