// Any bytes as the head or the body of an HTTP request to the gateway: refused in OpenAI's shape, or turned into what
// keeps every limit; and whatever was asked for, the answer is sound JSON.
//
// The first byte chooses: N a GenerateRequest in protobuf's JSON; else H (or what is 0 mod 3) a head, C a completion, M
// a chat completion.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/check.h"
#include "router/http/completion_request.h"
#include "router/http/completion_response.h"
#include "router/http/native_handler.h"
#include "router/http/request_head.h"
#include "tests/fuzz/input.h"

namespace kvrelay::fuzz {
namespace {

using nlohmann::json;

void CheckRefusal(const http::ApiError& error) {
  KV_CHECK(error.status >= 400 && error.status < 500, "a bad request is the client's fault");
  const std::string body = error.Json();
  KV_CHECK(body.size() < 4096, "messages are bounded");
  KV_CHECK(json::parse(body).at("error").at("message").is_string(), "an error has a message");
}

void Head(std::string_view raw) {
  const auto checked = http::CheckHead(raw);
  if (const auto* error = std::get_if<http::ApiError>(&checked)) return CheckRefusal(*error);
  const auto& head = std::get<http::RequestHead>(checked);
  KV_CHECK(head.body_bytes <= http::kBodyBytesMax && (head.is_post || head.body_bytes == 0), "bodies are bounded");
  KV_CHECK(head.bytes.size() <= raw.size() + 4 && head.bytes.ends_with("\r\n"), "a head ends, and does not grow");
  for (const unsigned char c : head.bytes) KV_CHECK(c >= 0x20 || c == '\t' || c == '\r' || c == '\n', "a head is text");
}

v1::GenerateResponse TokenEvent(const http::CompletionRequest& request, const std::string& text) {
  v1::GenerateResponse event;
  v1::Token& token = *event.mutable_token();
  token.set_text(text);
  if (!request.logprobs) return event;
  token.set_piece(text);
  token.set_logprob(-1);
  for (uint32_t i = 0; i < request.calls[0].logprobs(); ++i) token.add_top()->set_text(text);
  return event;
}

void CheckEvents(std::string_view events) {
  while (!events.empty()) {
    const size_t end = events.find("\n\n");
    KV_CHECK(events.starts_with("data: ") && end != std::string_view::npos, "events have a beginning and an end");
    const std::string_view data = events.substr(6, end - 6);
    KV_CHECK(data == "[DONE]" || json::parse(data).is_object(), "an event is JSON");
    events.remove_prefix(end + 2);
  }
}

void Answer(const http::CompletionRequest& request) {
  const auto prompts = request.calls.size() / static_cast<size_t>(request.choices_per_prompt);
  http::CompletionResponse response(request, {.id = "id", .model = "m", .fingerprint = "f"},
                                    std::vector<std::string>(request.echo ? prompts : 0, "echo"));
  if (request.stream) CheckEvents(response.Begin());
  for (size_t i = 0; i < request.calls.size(); ++i) {
    for (const char* text : {"a", "", "\xEF\xBF\xBD", "\xC3\xA4\"\\\n"}) {
      response.Add(i, TokenEvent(request, text));
      if (request.stream) CheckEvents(response.Next(i));
    }
    v1::GenerateResponse last;
    last.mutable_finished()->set_text("end");
    response.Add(i, last);
    if (request.stream) CheckEvents(response.Next(i));
  }
  if (request.stream) return CheckEvents(response.End());
  KV_CHECK(json::parse(response.Whole()).at("choices").size() == request.calls.size(), "every choice is there");
}

void Body(http::Api api, std::string_view bytes) {
  const auto parsed = http::ParseCompletionRequest(api, std::string(bytes), "id");
  if (const auto* error = std::get_if<http::ApiError>(&parsed)) return CheckRefusal(*error);
  const auto& request = std::get<http::CompletionRequest>(parsed);
  KV_CHECK(!request.calls.empty() && request.calls.size() <= http::kChoicesMax, "choices are bounded");
  for (const v1::GenerateRequest& call : request.calls) {
    KV_CHECK(call.prompt_case() != v1::GenerateRequest::PROMPT_NOT_SET && call.logprobs() <= 20, "a call is whole");
  }
  Answer(request);
}

void Native(std::string_view bytes) {
  const auto parsed = http::ParseGenerate(std::string(bytes), "id");
  if (const auto* error = std::get_if<http::ApiError>(&parsed)) return CheckRefusal(*error);
  KV_CHECK(!std::get<v1::GenerateRequest>(parsed).request_id().empty(), "a request has a label");
}

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == 'N') {
    kvrelay::fuzz::Native({reinterpret_cast<const char*>(data) + 1, size - 1});
    return 0;
  }
  kvrelay::fuzz::Input input(data, size);
  switch (input.Below(3)) {
    case 0:
      kvrelay::fuzz::Head(input.Rest());
      break;
    case 1:
      kvrelay::fuzz::Body(kvrelay::http::Api::kCompletions, input.Rest());
      break;
    default:
      kvrelay::fuzz::Body(kvrelay::http::Api::kChat, input.Rest());
  }
  return 0;
}
