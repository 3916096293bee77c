#include "router/http/completion_response.h"

#include "absl/strings/str_cat.h"
#include "router/http/json_fields.h"
#include "router/http/logprobs.h"

namespace kvrelay::http {
namespace {

std::string DataEvent(const std::string& data) { return absl::StrCat("data: ", data, "\n\n"); }

// The members that all objects of an answer have.
Json Object(const CompletionRequest& request, const AnswerLabel& label) {
  const bool chat = request.api == Api::kChat;
  Json object;
  object["id"] = absl::StrCat(chat ? "chatcmpl-" : "cmpl-", label.id);
  object["object"] = !chat ? "text_completion" : request.stream ? "chat.completion.chunk" : "chat.completion";
  object["created"] = label.created;
  object["model"] = label.model;
  object["system_fingerprint"] = absl::StrCat("fp_", label.fingerprint.substr(0, 12));
  return object;
}

// Choices of one prompt share it: it counts once.
Json UsageOf(const std::vector<Choice>& choices, int choices_per_prompt) {
  uint64_t prompt = 0, completion = 0, cached = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    const v1::Usage& usage = choices[i].usage;
    completion += usage.completion();
    if (i % static_cast<size_t>(choices_per_prompt) != 0) continue;
    prompt += usage.prompt();
    cached += usage.cached();
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

// What `choice` holds, in the shape of a choice.
Json ChoiceJson(const CompletionRequest& request, size_t index, Choice& choice) {
  Json json;
  json["index"] = index;
  json["finish_reason"] = choice.finish_reason.empty() ? Json() : Json(choice.finish_reason);
  json["logprobs"] = nullptr;
  const bool logprobs = request.logprobs && !choice.tokens.empty();
  if (request.api == Api::kCompletions) {
    json["text"] = choice.text;
    if (logprobs) json["logprobs"] = CompletionLogprobs(choice.tokens, request.top_logprobs, choice.characters);
    return json;
  }
  if (logprobs) json["logprobs"] = ChatLogprobs(choice.tokens, request.top_logprobs);
  if (request.stream) {
    json["delta"] = choice.text.empty() ? Json::object() : Json({{"content", choice.text}});
  } else {
    json["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  }
  return json;
}

std::string ChunkEvent(const CompletionRequest& request, const AnswerLabel& label, Json choice) {
  Json object = Object(request, label);
  object["choices"] = Json::array({std::move(choice)});
  if (request.include_usage) object["usage"] = nullptr;
  return DataEvent(Dump(object));
}

}  // namespace

CompletionResponse::CompletionResponse(const CompletionRequest& request, AnswerLabel label,
                                       std::vector<std::string> prompt_texts)
    : request_(request),
      label_(std::move(label)),
      prompt_texts_(std::move(prompt_texts)),
      choices_(request.calls.size()) {}

void CompletionResponse::Add(size_t choice, const v1::GenerateResponse& event) {
  Choice& to = choices_[choice];
  if (event.has_token()) {
    to.text += event.token().text();
    if (request_.logprobs) to.tokens.push_back(event.token());
  } else if (event.has_finished()) {
    to.text += event.finished().text();
    to.usage = event.finished().usage();
    to.finish_reason = event.finished().reason() == v1::FINISH_REASON_LENGTH ? "length" : "stop";
  }
}

std::string CompletionResponse::Begin() {
  std::string events;
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice choice;
    Json json;
    if (request_.api == Api::kChat) {
      json = ChoiceJson(request_, i, choice);
      json["delta"] = {{"role", "assistant"}, {"content", ""}};
    } else if (request_.echo) {
      choice.text = prompt_texts_[i / static_cast<size_t>(request_.choices_per_prompt)];
      json = ChoiceJson(request_, i, choice);
    } else {
      continue;
    }
    events += ChunkEvent(request_, label_, std::move(json));
  }
  return events;
}

std::string CompletionResponse::Next(size_t index) {
  Choice& choice = choices_[index];
  if (choice.text.empty() && choice.tokens.empty() && choice.finish_reason.empty()) return "";
  Json json = ChoiceJson(request_, index, choice);
  choice.text.clear();
  choice.tokens.clear();
  return ChunkEvent(request_, label_, std::move(json));
}

std::string CompletionResponse::End() const {
  std::string events;
  if (request_.include_usage) {
    Json object = Object(request_, label_);
    object["choices"] = Json::array();
    object["usage"] = UsageOf(choices_, request_.choices_per_prompt);
    events = DataEvent(Dump(object));
  }
  return events + DataEvent("[DONE]");
}

std::string CompletionResponse::Whole() const {
  Json object = Object(request_, label_);
  object["choices"] = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice choice = choices_[i];
    if (request_.echo) {
      choice.text.insert(0, prompt_texts_[i / static_cast<size_t>(request_.choices_per_prompt)]);
    }
    object["choices"].push_back(ChoiceJson(request_, i, choice));
  }
  object["usage"] = UsageOf(choices_, request_.choices_per_prompt);
  return Dump(object);
}

std::string ErrorEvent(const ApiError& error) { return DataEvent(error.Json()); }

}  // namespace kvrelay::http
