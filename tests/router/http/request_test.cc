// What requests over HTTP become, and how they are refused.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_mapping.h"
#include "router/http/api_error.h"
#include "router/http/completion_request.h"
#include "router/http/json_fields.h"

namespace kvrelay::http {
namespace {

using ::testing::HasSubstr;

v1::GenerateRequest FromText(const std::string& text) {
  v1::GenerateRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

CompletionRequest Parse(Api api, const std::string& body) {
  Result<CompletionRequest> parsed = ParseCompletionRequest(api, body, "id");
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << error->Json();
  return error == nullptr ? std::get<CompletionRequest>(parsed) : CompletionRequest{.api = api};
}

ApiError Refused(Api api, const std::string& body) {
  const Result<CompletionRequest> parsed = ParseCompletionRequest(api, body, "id");
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_NE(error, nullptr) << "was taken";
  return error == nullptr ? ApiError{.status = 0, .message = ""} : *error;
}

TEST(Request, BecomesCalls) {
  struct Case {
    Api api;
    std::string body;
    std::vector<std::string> calls;
  };
  const Case cases[] = {
      {Api::kCompletions,
       R"({"prompt": "hi"})",
       {R"(request_id: "id" text: "hi" max_tokens: 16 sampling { temperature: 1 })"}},
      {Api::kCompletions,
       R"({"model": "m", "prompt": "hi", "max_tokens": 5, "temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.25,
           "seed": 7, "stop": "x", "min_tokens": 2, "stop_token_ids": [3, 4], "ignore_eos": true, "priority": -3,
           "cache_salt": "s", "logprobs": 2, "truncate_prompt_tokens": 9, "skip_special_tokens": false,
           "include_stop_str_in_output": true})",
       {R"(request_id: "id" model: "m" text: "hi" max_tokens: 5 min_tokens: 2 stop: "x" stop_token_ids: [3, 4]
           ignore_eos: true priority: -3 logprobs: 2 cache_salt: "s" truncate_prompt_tokens: 9 include_control: true
           include_stop: true sampling { temperature: 0 top_p: 0.5 top_k: 3 min_p: 0.25 seed: 7 })"}},
      {Api::kCompletions,
       R"({"prompt": ["a", "b"], "n": 2, "seed": 18, "temperature": 2, "logprobs": 0})",
       {R"(request_id: "id-1" text: "a" max_tokens: 16 logprobs: 1 sampling { temperature: 2 seed: 18 })",
        R"(request_id: "id-2" text: "a" max_tokens: 16 logprobs: 1 sampling { temperature: 2 seed: 19 })",
        R"(request_id: "id-3" text: "b" max_tokens: 16 logprobs: 1 sampling { temperature: 2 seed: 18 })",
        R"(request_id: "id-4" text: "b" max_tokens: 16 logprobs: 1 sampling { temperature: 2 seed: 19 })"}},
      {Api::kCompletions,
       R"({"prompt": "hi", "presence_penalty": -0.5, "frequency_penalty": 2, "repetition_penalty": 1.25,
           "logit_bias": {"50256": -100, "7": 2.5}, "allowed_token_ids": [7, 8]})",
       {R"(request_id: "id" text: "hi" max_tokens: 16
           sampling { temperature: 1 repetition_penalty: 1.25 presence_penalty: -0.5 frequency_penalty: 2
                      logit_bias { key: 50256 value: -100 } logit_bias { key: 7 value: 2.5 }
                      allowed_token_ids: [7, 8] })"}},
      {Api::kCompletions,
       R"({"prompt": [1, 2], "top_k": -1, "stop": ["x", "y"], "seed": -1})",
       {R"(request_id: "id" token_ids { ids: [1, 2] } max_tokens: 16 stop: "x" stop: "y"
           sampling { temperature: 1 seed: 18446744073709551615 })"}},
      {Api::kCompletions,
       R"({"prompt": [[1], [2, 3]]})",
       {R"(request_id: "id-1" token_ids { ids: [1] } max_tokens: 16 sampling { temperature: 1 })",
        R"(request_id: "id-2" token_ids { ids: [2, 3] } max_tokens: 16 sampling { temperature: 1 })"}},
      // A schema keeps the order of its members, numbers and escapes.
      {Api::kChat,
       R"({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {
           "name": "n", "strict": true, "schema": {"type": "object", "properties": {"z": {"maximum": 1.50, "enum": []},
           "a": [{}, null, true, -3, 18446744073709551615, "\u00e9\n"]}, "b": {"c": {}}}}}})",
       {R"(request_id: "id" sampling { temperature: 1 } chat { messages { role: "user" content: "x" } } json_schema:
           '{"type":"object","properties":{"z":{"maximum":1.50,"enum":[]},"a":[{},null,true,-3,18446744073709551615,"\303\251\\n"]},"b":{"c":{}}}')"}},
      {Api::kChat,
       R"({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}})",
       {R"(request_id: "id" sampling { temperature: 1 } chat { messages { role: "user" content: "x" } }
           json_schema: '{"type":"object"}')"}},
      {Api::kCompletions,
       R"({"prompt": "x", "structured_outputs": {"json": {"b": 1, "a": 2}}})",
       {R"(request_id: "id" text: "x" max_tokens: 16 sampling { temperature: 1 } json_schema: '{"b":1,"a":2}')"}},
      {Api::kCompletions,
       R"({"prompt": "x", "structured_outputs": {"choice": ["a.b", "c|d"], "regex": null}})",
       {R"(request_id: "id" text: "x" max_tokens: 16 sampling { temperature: 1 } regex: 'a\\.b|c\\|d')"}},
      {Api::kCompletions,
       R"({"prompt": "x", "structured_outputs": {"grammar": "start: \"y\""}, "response_format": {"type": "text"}})",
       {R"(request_id: "id" text: "x" max_tokens: 16 sampling { temperature: 1 } lark_grammar: 'start: "y"')"}},
      // What asks for nothing, is null or is not known changes nothing.
      {Api::kCompletions,
       R"({"prompt": "hi", "max_tokens": null, "suffix": "", "logit_bias": {}, "presence_penalty": 0, "best_of": 1,
           "frequency_penalty": 0.0, "repetition_penalty": null, "allowed_token_ids": null, "user": "u", "unheard_of": [{"x": 1}], "n": 1,
           "skip_special_tokens": true, "stream": false})",
       {R"(request_id: "id" text: "hi" max_tokens: 16 sampling { temperature: 1 })"}},
      {Api::kChat,
       R"({"messages": [{"role": "developer", "content": "be"},
                        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}],
           "max_completion_tokens": 9, "max_tokens": 3, "logprobs": true, "top_logprobs": 4, "tools": [],
           "response_format": {"type": "text"}, "tool_choice": "none", "modalities": ["text"]})",
       {R"(request_id: "id" max_tokens: 9 logprobs: 4 sampling { temperature: 1 }
           chat { messages { role: "system" content: "be" } messages { role: "user" content: "hi" } })"}},
      {Api::kChat,
       R"({"messages": [{"role": "user", "content": ""}], "logprobs": true})",
       {R"(request_id: "id" logprobs: 1 sampling { temperature: 1 }
           chat { messages { role: "user" content: "" } })"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.body);
    const CompletionRequest parsed = Parse(c.api, c.body);
    ASSERT_EQ(parsed.calls.size(), c.calls.size());
    for (size_t i = 0; i < c.calls.size(); ++i) {
      // The text form leaves out members with presence that have their default; compare what is sent.
      EXPECT_EQ(parsed.calls[i].ShortDebugString(), [&] {
        v1::GenerateRequest expected = FromText(c.calls[i]);
        expected.mutable_sampling()->set_top_k(expected.sampling().top_k());
        return expected.ShortDebugString();
      }());
    }
  }
}

TEST(Request, OptionsOfTheAnswer) {
  const CompletionRequest stream =
      Parse(Api::kCompletions, R"({"prompt": "a", "stream": true, "stream_options": {"include_usage": true}, "n": 3})");
  EXPECT_TRUE(stream.stream && stream.include_usage && !stream.echo && !stream.logprobs);
  EXPECT_EQ(stream.choices_per_prompt, 3);
  const CompletionRequest none = Parse(Api::kCompletions, R"({"prompt": "a", "echo": true})");
  EXPECT_TRUE(none.echo && !none.stream && !none.logprobs);
  const CompletionRequest zero = Parse(Api::kCompletions, R"({"prompt": "a", "logprobs": 0})");
  EXPECT_TRUE(zero.logprobs);
  EXPECT_EQ(zero.top_logprobs, 0);
}

TEST(Request, WrongFieldsAreNamed) {
  struct Case {
    std::string member;  // of the object, beside a good prompt or in its place
    std::string param;
  };
  const Case completions[] = {
      {R"("prompt": null)", "prompt"},
      {R"("prompt": 5)", "prompt"},
      {R"("prompt": [])", "prompt"},
      {R"("prompt": {})", "prompt"},
      {R"("prompt": true)", "prompt"},
      {R"("prompt": [[]])", "prompt"},
      {R"("prompt": ["a", 1])", "prompt"},
      {R"("prompt": [1, "a"])", "prompt"},
      {R"("prompt": [1, [2]])", "prompt"},
      {R"("prompt": [[1], "a"])", "prompt"},
      {R"("prompt": [[1], [-2]])", "prompt"},
      {R"("prompt": [-1])", "prompt"},
      {R"("prompt": [1.5])", "prompt"},
      {R"("prompt": [4294967296])", "prompt"},
      {R"("prompt": [99999999999999999999999])", "prompt"},
      {R"("prompt": [null])", "prompt"},
      {R"("prompt": [[[1]]])", "prompt"},
      {R"("model": 1)", "model"},
      {R"("model": ["m"])", "model"},
      {R"("max_tokens": 0)", "max_tokens"},
      {R"("max_tokens": -1)", "max_tokens"},
      {R"("max_tokens": 1.5)", "max_tokens"},
      {R"("max_tokens": "5")", "max_tokens"},
      {R"("max_tokens": true)", "max_tokens"},
      {R"("max_tokens": 4294967297)", "max_tokens"},
      {R"("max_tokens": 18446744073709551615)", "max_tokens"},
      {R"("min_tokens": -1)", "min_tokens"},
      {R"("temperature": "hot")", "temperature"},
      {R"("temperature": [])", "temperature"},
      {R"("top_p": "all")", "top_p"},
      {R"("top_p": {})", "top_p"},
      {R"("top_k": -2)", "top_k"},
      {R"("top_k": 0.5)", "top_k"},
      {R"("min_p": false)", "min_p"},
      {R"("repetition_penalty": "1")", "repetition_penalty"},
      {R"("presence_penalty": true)", "presence_penalty"},
      {R"("frequency_penalty": [1])", "frequency_penalty"},
      {R"("logit_bias": [5])", "logit_bias"},
      {R"("logit_bias": {"5": "1"})", "logit_bias"},
      {R"("logit_bias": {"5": null})", "logit_bias"},
      {R"("logit_bias": {"Paris": 1})", "logit_bias"},
      {R"("logit_bias": {"-1": 1})", "logit_bias"},
      {R"("logit_bias": {"1.0": 1})", "logit_bias"},
      {R"("logit_bias": {"4294967296": 1})", "logit_bias"},
      {R"("logit_bias": {"5": 1, "05": 1})", "logit_bias"},
      {R"("allowed_token_ids": [])", "allowed_token_ids"},
      {R"("allowed_token_ids": ["a"])", "allowed_token_ids"},
      {R"("allowed_token_ids": 5)", "allowed_token_ids"},
      {R"("seed": 1.5)", "seed"},
      {R"("seed": "1")", "seed"},
      {R"("seed": 18446744073709551615)", "seed"},
      {R"("n": 0)", "n"},
      {R"("n": -1)", "n"},
      {R"("n": 33)", "n"},
      {R"("n": 2147483648)", "n"},
      {R"("n": 1e3)", "n"},
      {R"("n": "2")", "n"},
      {R"("prompt": ["a", "b"], "n": 17)", "prompt"},
      {R"("stop": 5)", "stop"},
      {R"("stop": ["a", 5])", "stop"},
      {R"("stop": {"a": 1})", "stop"},
      {R"("stop_token_ids": 5)", "stop_token_ids"},
      {R"("stop_token_ids": ["a"])", "stop_token_ids"},
      {R"("ignore_eos": 1)", "ignore_eos"},
      {R"("priority": 0.5)", "priority"},
      {R"("truncate_prompt_tokens": 0)", "truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens": -1)", "truncate_prompt_tokens"},
      {R"("skip_special_tokens": 0)", "skip_special_tokens"},
      {R"("include_stop_str_in_output": 1)", "include_stop_str_in_output"},
      {R"("cache_salt": 5)", "cache_salt"},
      {R"("response_format": "json")", "response_format"},
      {R"("response_format": {})", "response_format.type"},
      {R"("response_format": {"type": "xml"})", "response_format.type"},
      {R"("response_format": {"type": 5})", "response_format.type"},
      {R"("response_format": {"type": "json_schema"})", "response_format.json_schema"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"schema": 5}})", "response_format.json_schema"},
      {R"("structured_outputs": {})", "structured_outputs"},
      {R"("structured_outputs": [])", "structured_outputs"},
      {R"("structured_outputs": {"json": {}, "regex": "x"})", "structured_outputs"},
      {R"("structured_outputs": {"json": 5})", "structured_outputs.json"},
      {R"("structured_outputs": {"regex": 5})", "structured_outputs.regex"},
      {R"("structured_outputs": {"choice": []})", "structured_outputs.choice"},
      {R"("structured_outputs": {"choice": ["a", 5]})", "structured_outputs.choice"},
      {R"("structured_outputs": {"structural_tag": "x"})", "structured_outputs.structural_tag"},
      {R"("structured_outputs": {"regex": "x"}, "response_format": {"type": "json_object"})", "structured_outputs"},
      {R"("echo": "yes")", "echo"},
      {R"("logprobs": true)", "logprobs"},
      {R"("logprobs": -1)", "logprobs"},
      {R"("logprobs": 21)", "logprobs"},
      {R"("logprobs": 1, "echo": true)", "logprobs"},
      {R"("stream": "yes")", "stream"},
      {R"("stream_options": {})", "stream_options"},
      {R"("stream": true, "stream_options": 1)", "stream_options"},
      {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage"}};
  for (const Case& c : completions) {
    SCOPED_TRACE(c.member);
    const bool has_prompt = c.member.find("\"prompt\"") != std::string::npos;
    const ApiError error =
        Refused(Api::kCompletions, absl::StrCat("{", has_prompt ? "" : R"("prompt": "a", )", c.member, "}"));
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, c.param);
    EXPECT_THAT(error.message, HasSubstr(c.param));
  }
  const Case chats[] = {
      {R"("messages": null)", "messages"},
      {R"("messages": "hi")", "messages"},
      {R"("messages": [])", "messages"},
      {R"("messages": {})", "messages"},
      {R"("messages": ["hi"])", "messages[0]"},
      {R"("messages": [{"content": "a"}])", "messages[0].role"},
      {R"("messages": [{"role": "", "content": "a"}])", "messages[0].role"},
      {R"("messages": [{"role": 1, "content": "a"}])", "messages[0].role"},
      {R"("messages": [{"role": "user"}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": null}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": 1}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": {}}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": ["a"]}])", "messages[0].content[0]"},
      {R"("messages": [{"role": "user", "content": [{"type": "image_url"}]}])", "messages[0].content[0]"},
      {R"("messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}])", "messages[0].content[0]"},
      {R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b",
                            "tool_calls": [{"id": "x"}]}])",
       "messages[1].tool_calls"},
      {R"("max_completion_tokens": 0)", "max_completion_tokens"},
      {R"("logprobs": 1)", "logprobs"},
      {R"("top_logprobs": 2)", "top_logprobs"},
      {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
      {R"("logprobs": true, "top_logprobs": "2")", "top_logprobs"}};
  for (const Case& c : chats) {
    SCOPED_TRACE(c.member);
    const bool has_messages = c.member.find("messages") != std::string::npos;
    const std::string good = has_messages ? "" : R"("messages": [{"role": "user", "content": "a"}], )";
    const ApiError error = Refused(Api::kChat, absl::StrCat("{", good, c.member, "}"));
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, c.param);
    EXPECT_THAT(error.message, HasSubstr(c.param));
  }
}

TEST(Request, WhatIsNotBuiltIsRefusedByName) {
  const std::pair<const char*, const char*> options[] = {{"suffix", R"("x")"},
                                                         {"best_of", "2"},
                                                         {"bad_words", R"(["x"])"},
                                                         {"length_penalty", "1.1"},
                                                         {"tools", R"([{"type": "function"}])"},
                                                         {"tool_choice", R"("required")"},
                                                         {"functions", "[{}]"},
                                                         {"modalities", R"(["text", "audio"])"},
                                                         {"guided_json", R"({"type": "object"})"},
                                                         {"add_generation_prompt", "false"},
                                                         {"continue_final_message", "true"},
                                                         {"prompt_logprobs", "1"},
                                                         {"use_beam_search", "true"},
                                                         {"chat_template", R"("x")"}};
  for (const auto& [name, value] : options) {
    SCOPED_TRACE(name);
    for (const Api api : {Api::kCompletions, Api::kChat}) {
      const ApiError error =
          Refused(api, absl::StrCat(R"({"prompt": "a", "messages": [{"role": "user", "content": "a"}], ")", name,
                                    "\": ", value, "}"));
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.param, name);
      EXPECT_EQ(error.code, "unsupported_parameter");
    }
  }
}

TEST(Request, BodiesThatAreNoJsonObject) {
  const std::string deep(kJsonDepthMax + 1, '[');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "a JSON object"},
      {"5", "a JSON object"},
      {"null", "a JSON object"},
      {"\"a\"", "a JSON object"},
      {R"({"prompt": NaN})", "not valid JSON"},
      {R"({"prompt": "a", "temperature": Infinity})", "not valid JSON"},
      {R"({"prompt": "a", "temperature": 1e999})", "not valid JSON"},
      {R"({"prompt": "a"} {"prompt": "b"})", "not valid JSON"},
      {R"({"prompt": "a",})", "not valid JSON"},
      {R"({'prompt': 'a'})", "not valid JSON"},
      {"{\"prompt\": \"\xff\"}", "not valid JSON"},
      {R"({"prompt": "\ud800"})", "not valid JSON"},
      {std::string("{\"prompt\": \"a\0\"}", 15), "not valid JSON"},
      {R"({"prompt": )" + std::string(1 << 20, '[') + "}", "nested deeper"},
      {R"({"prompt": )" + deep, "nested deeper"},
      {R"({"prompt": [0)" +
           [] {
             std::string zeros;
             for (int i = 0; i <= kJsonValuesMax; ++i) zeros += ",0";
             return zeros;
           }() +
           "]}",
       "more than"},
      {"\"" + std::string(1 << 20, 'x'), "not valid JSON"}};
  for (const auto& [body, message] : cases) {
    const ApiError error = Refused(Api::kCompletions, body);
    EXPECT_EQ(error.status, 400) << body.substr(0, 80);
    EXPECT_THAT(error.message, HasSubstr(message)) << body.substr(0, 80);
    EXPECT_LT(error.Json().size(), 1000u) << body.substr(0, 80);
  }
  // Brackets in strings, escaped quotes included, are no nesting.
  EXPECT_EQ(Parse(Api::kCompletions, R"({"prompt": "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["})").calls.size(),
            1u);
}

TEST(Request, ManyCopiesOfALongPromptAreRefused) {
  const std::string prompt(1 << 20, 'x');
  EXPECT_EQ(Refused(Api::kCompletions, R"({"n": 32, "prompt": ")" + prompt + "\"}").param, "n");
  EXPECT_EQ(Parse(Api::kCompletions, R"({"n": 3, "prompt": ")" + prompt + "\"}").calls.size(), 3u);
}

TEST(Errors, OfTheServiceInOpenAisShape) {
  struct Case {
    absl::Status status;
    int http;
    std::string type, param, code, message;
  };
  const Case cases[] = {
      {absl::InvalidArgumentError("sampling.temperature is -1, it must be"), 400, "invalid_request_error",
       "temperature", "", "temperature is -1, it must be"},
      {absl::InvalidArgumentError("sampling.logit_bias[3] is 101, it must be"), 400, "invalid_request_error",
       "logit_bias", "", "logit_bias[3] is 101, it must be"},
      {absl::InvalidArgumentError("stop[3] is 0 bytes long"), 400, "invalid_request_error", "stop", "",
       "stop[3] is 0 bytes long"},
      {absl::InvalidArgumentError("chat.messages[0].role is 70 bytes long"), 400, "invalid_request_error", "messages",
       "", "messages[0].role is 70 bytes long"},
      {absl::InvalidArgumentError("token_ids.ids[0] is 5"), 400, "invalid_request_error", "prompt", "",
       "prompt[0] is 5"},
      {absl::InvalidArgumentError("max_tokens is 9, it must be at most 3: the model's context of 8 tokens less"), 400,
       "invalid_request_error", "max_tokens", "context_length_exceeded", "max_tokens is 9"},
      {absl::InvalidArgumentError("the prompt is empty"), 400, "invalid_request_error", "prompt", "",
       "the prompt is empty"},
      {absl::InvalidArgumentError("something else"), 400, "invalid_request_error", "", "", "something else"},
      {absl::UnauthenticatedError("a"), 401, "authentication_error", "", "invalid_api_key", "a"},
      {absl::PermissionDeniedError("a"), 403, "permission_error", "", "", "a"},
      {absl::NotFoundError("a"), 404, "invalid_request_error", "model", "model_not_found", "a"},
      {absl::AbortedError("a"), 409, "invalid_request_error", "", "", "a"},
      {rpc::WithRetryDelay(absl::ResourceExhaustedError("a"), absl::Milliseconds(2500)), 429, "rate_limit_error", "",
       "rate_limit_exceeded", "a"},
      {absl::CancelledError("a"), 499, "invalid_request_error", "", "", "a"},
      {absl::InternalError("a"), 500, "server_error", "", "", "a"},
      {absl::DataLossError("a"), 500, "server_error", "", "", "a"},
      {absl::FailedPreconditionError("a"), 500, "server_error", "", "", "a"},
      {absl::UnimplementedError("a"), 501, "server_error", "", "", "a"},
      {absl::UnavailableError("a"), 503, "server_error", "", "", "a"},
      {absl::DeadlineExceededError("a"), 504, "server_error", "", "", "a"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.status.ToString());
    const ApiError error = FromStatus(c.status);
    EXPECT_EQ(error.status, c.http);
    const Json json = Json::parse(error.Json())["error"];
    EXPECT_EQ(json["type"], c.type);
    EXPECT_EQ(json["param"], c.param.empty() ? Json() : Json(c.param));
    EXPECT_EQ(json["code"], c.code.empty() ? Json() : Json(c.code));
    EXPECT_THAT(json["message"].get<std::string>(), testing::StartsWith(c.message));
  }
  EXPECT_EQ(FromStatus(cases[12].status).retry_after_s, 3);
  EXPECT_EQ(FromStatus(absl::UnavailableError("a")).retry_after_s, 1);
  EXPECT_EQ(FromStatus(absl::InternalError("a")).retry_after_s, std::nullopt);
  EXPECT_THAT(FromStatus(absl::InternalError("\xff")).Json(), HasSubstr("\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace kvrelay::http
