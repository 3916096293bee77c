// The gRPC API as JSON lines, and the page that uses it.
#include <gmock/gmock.h>

#include "absl/strings/str_split.h"
#include "router/web/page.h"
#include "tests/router/http/gateway_fixture.h"

namespace kvrelay::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::vector<Json> JsonLines(const std::string& body) {
  std::vector<Json> lines;
  for (const absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    lines.push_back(Json::parse(line.begin(), line.end()));
  }
  EXPECT_EQ(body.substr(body.size() - 1), "\n");
  return lines;
}

TEST_F(GatewayTest, NativeStream) {
  Start();
  const auto result = Post("/kvrelay/v1/generate",
                           R"({"text": "say:ab", "max_tokens": 2, "sampling": {"seed": "18446744073709551615"},
                               "execution": "EXECUTION_NO_CACHE", "trace": true, "logprobs": 1})",
                           {{"x-request-id", "mine"}, {"Authorization", "Bearer secret"}});
  ASSERT_EQ(result->status, 200) << result->body;
  EXPECT_EQ(result->get_header_value("Content-Type"), "application/jsonl");
  EXPECT_EQ(result->get_header_value("Cache-Control"), "no-store");
  const std::vector<Json> lines = JsonLines(result->body);
  EXPECT_EQ(lines.front()["started"]["request_id"], "mine");
  EXPECT_EQ(lines.back().at("finished").at("moves"), 0) << "zeros are written too";
  std::string text;
  int runs = 0;
  for (const Json& line : lines) {
    if (line.contains("token")) text += line["token"]["text"].get<std::string>();
    if (line.contains("run")) ++runs;
  }
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(lines.back()["finished"]["reason"], "FINISH_REASON_LENGTH");
  EXPECT_EQ(service.requests()[0].sampling().seed(), UINT64_MAX);
  EXPECT_EQ(service.requests()[0].execution(), v1::EXECUTION_NO_CACHE);
  EXPECT_EQ(service.authorizations()[0], "Bearer secret");
  EXPECT_EQ(JsonLines(Post("/kvrelay/v1/generate", R"({"text": "a", "request_id": "own", "max_tokens": 1})")->body)
                .front()["started"]["request_id"],
            "own");
}

TEST_F(GatewayTest, NativeRequestsThatAreNone) {
  Start();
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  for (const std::string& body :
       {std::string(""), std::string("[]"), std::string(R"({"text": 5})"), std::string(R"({"text": "a", "chat": {}})"),
        std::string(R"({"unheard_of": 1})"), std::string(R"({"text": "a", "max_tokens": -1})"),
        std::string(R"({"text": "a", "execution": "NEVER"})"), std::string("{\"text\": \"\xff\"}"),
        absl::StrCat(R"({"token_ids": {"ids": )", deep, "}}")}) {
    const Json error = Answer("/kvrelay/v1/generate", body, 400);
    EXPECT_EQ(error["error"]["type"], "invalid_request_error") << body;
  }
  EXPECT_THAT(Answer("/kvrelay/v1/generate", R"({"unheard_of": 1})", 400)["error"]["message"].get<std::string>(),
              testing::AllOf(HasSubstr("GenerateRequest"), HasSubstr("unheard_of")));
  EXPECT_TRUE(service.requests().empty());
}

TEST_F(GatewayTest, NativeErrors) {
  Start();
  EXPECT_EQ(Answer("/kvrelay/v1/generate", R"({"text": "fail:3"})", 400)["error"]["message"],
            "the fake was told to fail");
  const auto busy = Post("/kvrelay/v1/generate", R"({"text": "fail:8"})");
  EXPECT_EQ(busy->status, 429);
  EXPECT_TRUE(busy->has_header("Retry-After"));
  service.BreakAfter(3);
  const std::vector<Json> lines = JsonLines(Post("/kvrelay/v1/generate", R"({"text": "x"})")->body);
  EXPECT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines.back()["error"]["message"], "the connection was lost");
  EXPECT_TRUE(JsonLines(Post("/kvrelay/v1/generate", R"({"text": "unfinished"})")->body).back().contains("error"));
}

TEST_F(GatewayTest, NativeStreamsCountAndEndLikeOthers) {
  Start({.posts_max = 1});
  {
    RawConnection stream(port);
    stream.Send(RawPost("/kvrelay/v1/generate", R"({"text": "hang"})"));
    EXPECT_THAT(stream.ReadUntil("\"B\""), HasSubstr("200 OK"));
    EXPECT_EQ(client->Post("/kvrelay/v1/generate", R"({"text": "x"})", "application/json")->status, 503);
    EXPECT_EQ(service.cancelled(), 0);
  }
  EXPECT_TRUE(Eventually([&] { return service.cancelled() == 1; }));
}

TEST_F(GatewayTest, ModelAndStatus) {
  Start();
  v1::GetStatusResponse status;
  auto* worker = status.add_workers();
  worker->set_role(v1::WORKER_ROLE_DECODE);
  worker->set_instance("decode-7");
  service.SetStatus(status);
  const auto result = client->Get("/kvrelay/v1/status");
  EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
  const Json answer = Json::parse(result->body);
  EXPECT_EQ(answer["workers"][0]["role"], "WORKER_ROLE_DECODE");
  EXPECT_EQ(answer["workers"][0]["instance"], "decode-7");
  EXPECT_EQ(answer["workers"][0]["ready"], false);
  EXPECT_EQ(Json::parse(client->Get("/kvrelay/v1/model")->body)["name"], "fake");
}

// A browser obeys the policy; what it allows are the hashes of what is inside. tests/e2e/web sees it work.
TEST_F(GatewayTest, Page) {
  Start({.cors_origin = "https://page.example"});
  const auto page = client->Get("/");
  ASSERT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(page->get_header_value("Referrer-Policy"), "no-referrer");
  EXPECT_EQ(page->body.size(), web::kPageBytes);
  EXPECT_THAT(page->body, HasSubstr("</html>"));
  const std::string policy = page->get_header_value("Content-Security-Policy");
  EXPECT_THAT(policy, testing::AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'sha256-"),
                                     HasSubstr("frame-ancestors 'none'"), Not(HasSubstr("unsafe"))));
  for (const char* outside : {"src=\"", "href=\"http", "@import", "onclick=", "style=\""}) {
    EXPECT_THAT(page->body, Not(HasSubstr(outside)));
  }
  EXPECT_EQ(client->Head("/")->status, 200);
}

}  // namespace
}  // namespace kvrelay::http
