// The gateway's answers, over real HTTP, in front of a fake service.
#include <gmock/gmock.h>

#include "tests/router/http/gateway_fixture.h"

namespace kvrelay::http {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// The data of server-sent events.
std::vector<std::string> Events(const std::string& body) {
  std::vector<std::string> events;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << "an event without its end";
    EXPECT_EQ(body.substr(at, 6), "data: ");
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end == std::string::npos ? body.size() : end + 2;
  }
  return events;
}

TEST_F(GatewayTest, Completion) {
  Start();
  const Json answer = Answer("/v1/completions", R"({"model": "fake", "prompt": "hello", "max_tokens": 3})");
  EXPECT_THAT(answer["id"].get<std::string>(), testing::StartsWith("cmpl-h-"));
  EXPECT_GT(answer["created"].get<int64_t>(), 1'600'000'000);
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "fake");
  EXPECT_EQ(answer["system_fingerprint"], "fp_00ff");
  EXPECT_EQ(answer["choices"],
            Json::parse(R"([{"index": 0, "text": "ABC", "finish_reason": "length", "logprobs": null}])"));
  EXPECT_EQ(answer["usage"], Json::parse(R"({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8,
                                             "prompt_tokens_details": {"cached_tokens": 0}})"));
}

TEST_F(GatewayTest, Chat) {
  Start();
  const Json answer = Answer("/v1/chat/completions",
                             R"({"messages": [{"role": "user", "content": "hello"}], "max_completion_tokens": 2})");
  EXPECT_THAT(answer["id"].get<std::string>(), testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"], Json::parse(R"([{"index": 0, "finish_reason": "length", "logprobs": null,
      "message": {"role": "assistant", "content": "AB", "refusal": null}}])"));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 11);  // <user>hello
}

TEST_F(GatewayTest, SeveralChoicesWithEcho) {
  Start();
  const Json answer =
      Answer("/v1/completions", R"({"prompt": ["ab", "say:xy"], "n": 2, "echo": true, "max_tokens": 2, "seed": 5})");
  ASSERT_EQ(answer["choices"].size(), 4u);
  const char* texts[] = {"abAB", "abAB", "say:xyxy", "say:xyxy"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], texts[i]);
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 8) << "each prompt once";
  EXPECT_EQ(answer["usage"]["completion_tokens"], 8);
  std::multiset<uint64_t> seeds;
  for (const auto& request : service.requests()) seeds.insert(request.sampling().seed());
  EXPECT_EQ(seeds, (std::multiset<uint64_t>{5, 5, 6, 6}));
  EXPECT_EQ(Answer("/v1/completions", R"({"prompt": [65, 66], "echo": true, "max_tokens": 1})")["choices"][0]["text"],
            "ABA");
}

TEST_F(GatewayTest, Stream) {
  Start();
  const auto result = Post("/v1/completions",
                           R"({"prompt": "say:ab", "stream": true, "echo": true,
                               "stream_options": {"include_usage": true}})");
  EXPECT_EQ(result->status, 200);
  EXPECT_EQ(result->get_header_value("Content-Type"), "text/event-stream");
  EXPECT_EQ(result->get_header_value("Cache-Control"), "no-store");
  const auto events = Events(result->body);
  ASSERT_EQ(events.size(), 6u) << result->body;
  const char* texts[] = {"say:ab", "a", "b", ""};
  for (size_t i = 0; i < 4; ++i) {
    const Json chunk = Json::parse(events[i]);
    EXPECT_EQ(chunk["object"], "text_completion");
    EXPECT_EQ(chunk["choices"][0]["text"], texts[i]);
    EXPECT_EQ(chunk["choices"][0]["finish_reason"], i == 3 ? Json("length") : Json());
    EXPECT_TRUE(chunk["usage"].is_null());
    EXPECT_EQ(chunk["id"], Json::parse(events[0])["id"]);
  }
  const Json usage = Json::parse(events[4]);
  EXPECT_EQ(usage["choices"], Json::array());
  EXPECT_EQ(usage["usage"]["total_tokens"], 8);
  EXPECT_EQ(events[5], "[DONE]");
}

TEST_F(GatewayTest, ChatStream) {
  Start();
  const auto result =
      Post("/v1/chat/completions",
           R"({"messages": [{"role": "user", "content": "x"}], "stream": true, "max_tokens": 2, "n": 2})");
  const auto events = Events(result->body);
  std::string texts[2];
  int roles = 0, ends = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = Json::parse(events[i]);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_FALSE(chunk.contains("usage"));
    const Json& choice = chunk["choices"][0];
    texts[choice["index"].get<size_t>()] += choice["delta"].value("content", "");
    roles += choice["delta"].contains("role") ? 1 : 0;
    ends += choice["finish_reason"] == "length" ? 1 : 0;
  }
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(texts[0] + "|" + texts[1], "AB|AB");
  EXPECT_EQ(roles, 2);
  EXPECT_EQ(ends, 2);
}

TEST_F(GatewayTest, LogprobsInBothShapes) {
  Start();
  const Json completion = Answer("/v1/completions", R"({"prompt": "x", "max_tokens": 2, "logprobs": 2})");
  const Json& lists = completion["choices"][0]["logprobs"];
  EXPECT_EQ(lists["tokens"], Json::parse(R"(["A", "B"])"));
  EXPECT_EQ(lists["text_offset"], Json::parse("[0, 1]"));
  EXPECT_EQ(lists["token_logprobs"].size(), 2u);
  EXPECT_EQ(lists["top_logprobs"][1].size(), 2u);
  EXPECT_TRUE(lists["top_logprobs"][1].contains("C"));
  const Json alone = Answer("/v1/completions", R"({"prompt": "x", "max_tokens": 2, "logprobs": 0})");
  EXPECT_TRUE(alone["choices"][0]["logprobs"]["top_logprobs"].is_null());

  const Json chat = Answer("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}],
                            "max_tokens": 1, "logprobs": true, "top_logprobs": 2})");
  const Json& entry = chat["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["token"], "A");
  EXPECT_EQ(entry["bytes"], Json::parse("[65]"));
  EXPECT_FLOAT_EQ(entry["logprob"].get<float>(), -0.1f);
  EXPECT_EQ(entry["top_logprobs"].size(), 2u);

  // In a stream every token has its own, also where its text is held back.
  const auto result =
      Post("/v1/completions", R"({"prompt": "say:abcd", "stream": true, "logprobs": 1, "stop": "bcx"})");
  std::string tokens, text;
  std::vector<size_t> offsets;
  for (const std::string& event : Events(result->body)) {
    if (event == "[DONE]") continue;
    const Json chunk = Json::parse(event);
    text += chunk["choices"][0]["text"].get<std::string>();
    if (chunk["choices"][0]["logprobs"].is_null()) continue;
    for (const Json& token : chunk["choices"][0]["logprobs"]["tokens"]) tokens += token.get<std::string>();
    for (const Json& offset : chunk["choices"][0]["logprobs"]["text_offset"]) offsets.push_back(offset.get<size_t>());
  }
  EXPECT_EQ(tokens, "abcd");
  EXPECT_EQ(text, "abcd");
  EXPECT_EQ(offsets, (std::vector<size_t>{0, 1, 2, 3}));
}

TEST_F(GatewayTest, ModelsTokenizeDetokenizeHealth) {
  Start();
  EXPECT_EQ(Json::parse(client->Get("/health")->body)["status"], "ok");
  const Json models = Json::parse(client->Get("/v1/models")->body);
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "fake");
  EXPECT_EQ(models["data"][0]["max_model_len"], 2048);
  EXPECT_EQ(Json::parse(client->Get("/v1/models/fake")->body)["object"], "model");
  for (const std::string& name :
       {std::string("other"), std::string(7000, 'x'), std::string("%ff%00"), std::string("a/b")}) {
    const auto missing = client->Get("/v1/models/" + name);
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->status, 404);
    EXPECT_EQ(Json::parse(missing->body)["error"]["code"], "model_not_found");
  }
  EXPECT_EQ(Answer("/tokenize", R"({"prompt": "hi"})")["tokens"], Json::parse("[104, 105]"));
  const Json chat = Answer("/tokenize", R"({"messages": [{"role": "u", "content": "x"}], "return_token_strs": true})");
  EXPECT_EQ(chat["count"], 4);
  EXPECT_EQ(chat["token_strs"], Json::parse(R"(["<", "u", ">", "x"])"));
  EXPECT_EQ(Answer("/detokenize", R"({"tokens": [104, 105]})")["prompt"], "hi");
  EXPECT_EQ(Answer("/detokenize", R"({"tokens": []})")["prompt"], "");
  for (const char* body : {"{}", R"({"prompt": 5})", R"({"prompt": [1]})", R"({"messages": []})", "[]"}) {
    Answer("/tokenize", body, 400);
  }
  for (const char* body : {"{}", R"({"tokens": "a"})", R"({"tokens": [-1]})", R"({"tokens": null})", ""}) {
    Answer("/detokenize", body, 400);
  }
}

TEST_F(GatewayTest, ErrorsOfTheService) {
  Start();
  const std::pair<int, int> codes[] = {{3, 400},  {16, 401}, {7, 403},  {5, 404}, {8, 429}, {14, 503}, {13, 500},
                                       {15, 500}, {9, 500},  {12, 501}, {4, 504}, {1, 499}, {10, 409}};
  for (const auto& [code, status] : codes) {
    for (const char* stream : {"false", "true"}) {
      const auto result =
          Post("/v1/completions", absl::StrCat(R"({"prompt": "fail:)", code, R"(", "stream": )", stream, "}"));
      EXPECT_EQ(result->status, status) << code;
      EXPECT_EQ(Json::parse(result->body)["error"]["message"], "the fake was told to fail");
      EXPECT_EQ(result->has_header("Retry-After"), status == 429 || status == 503);
      EXPECT_EQ(result->has_header("WWW-Authenticate"), status == 401);
    }
  }
  // One choice of several is enough.
  Answer("/v1/completions", R"({"prompt": ["ok", "fail:14"]})", 503);
  // Once the stream has begun the status is out: the error is an event, and there is no end mark.
  service.BreakAfter(3);
  const auto events = Events(Post("/v1/completions", R"({"prompt": "x", "stream": true})")->body);
  EXPECT_EQ(Json::parse(events.back())["error"]["message"], "the connection was lost");
  service.BreakAfter(3);
  Answer("/v1/completions", R"({"prompt": "x"})", 503);
  EXPECT_EQ(Answer("/v1/completions", R"({"prompt": "unfinished"})", 500)["error"]["type"], "server_error");
}

TEST_F(GatewayTest, LabelsAndMetadata) {
  Start({.cors_origin = "https://page.example"});
  const std::string parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01";
  const auto result = Post("/v1/completions", R"({"prompt": "x"})",
                           {{"x-request-id", "my id\t7"}, {"traceparent", parent}, {"Authorization", "Bearer secret"}});
  EXPECT_EQ(result->get_header_value("x-request-id"), "myid7");
  EXPECT_EQ(result->get_header_value("traceparent"), parent);
  EXPECT_EQ(result->get_header_value("Access-Control-Allow-Origin"), "https://page.example");
  EXPECT_EQ(result->get_header_value_count("x-request-id"), 1u);
  EXPECT_EQ(Json::parse(result->body)["id"], "cmpl-myid7");
  EXPECT_EQ(service.requests()[0].request_id(), "myid7");
  EXPECT_EQ(service.authorizations()[0], "Bearer secret");
  EXPECT_FALSE(Post("/v1/completions", "{}", {{"traceparent", "00-zz"}})->has_header("traceparent"));

  const auto preflight =
      client->Options("/v1/chat/completions", {{"Access-Control-Request-Headers", "authorization, x-mine"}});
  EXPECT_EQ(preflight->status, 204);
  EXPECT_EQ(preflight->get_header_value("Access-Control-Allow-Headers"), "authorization, x-mine");
}

TEST_F(GatewayTest, WithoutCorsNoOtherPageIsAllowed) {
  Start();
  EXPECT_FALSE(client->Options("/v1/completions")->has_header("Access-Control-Allow-Origin"));
  EXPECT_FALSE(client->Get("/health")->has_header("Access-Control-Allow-Origin"));
}

TEST_F(GatewayTest, UnknownPathsAndMethods) {
  Start();
  for (const std::string path :
       {"/v1", "/index.html", "/kvrelay/v1/generate", "/v1/completion", "/v1/models/", "//", "/../etc/passwd"}) {
    const auto result = client->Get(path);
    EXPECT_EQ(result->status, 404) << path;
    EXPECT_THAT(Json::parse(result->body)["error"]["message"].get<std::string>(), HasSubstr("there is no GET"));
  }
  EXPECT_EQ(client->Get("/v1/completions")->status, 404);
  EXPECT_EQ(client->Put("/v1/completions", "{}", "application/json")->status, 405);
  EXPECT_EQ(client->Head("/health")->status, 200);
}

}  // namespace
}  // namespace kvrelay::http
