// What clients cannot do to a gateway: hold it up, starve it, outstay it, or break it.
#include <gmock/gmock.h>

#include "tests/router/http/gateway_fixture.h"

namespace kvrelay::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kHang[] = R"({"prompt": "hang"})";
constexpr char kHangStream[] = R"({"prompt": "hang", "stream": true})";

TEST_F(GatewayTest, AClientThatGoesEndsItsGenerations) {
  Start();
  {
    RawConnection stream(port), whole(port), several(port);
    stream.Send(RawPost("/v1/completions", kHangStream));
    whole.Send(RawPost("/v1/completions", kHang));
    several.Send(RawPost("/v1/chat/completions", R"({"n": 2, "messages": [{"role": "user", "content": "hang"}]})"));
    EXPECT_THAT(stream.ReadUntil("\"B\""), HasSubstr("200 OK"));
    EXPECT_TRUE(Eventually([&] { return service.requests().size() == 4; }));
    EXPECT_EQ(service.cancelled(), 0);
  }
  EXPECT_TRUE(Eventually([&] { return service.cancelled() == 4; }));
}

TEST_F(GatewayTest, AClientThatDoesNotReadEndsItsStream) {
  Start({.times = {.write = absl::Milliseconds(300)}});
  RawConnection slow(port);
  slow.Send(RawPost("/v1/completions", R"({"prompt": "flood", "stream": true})"));
  EXPECT_TRUE(Eventually([&] { return service.cancelled() == 1; }));
}

TEST_F(GatewayTest, PostsBeyondTheLimitAreTurnedAway) {
  Start({.posts_max = 2});
  {
    RawConnection one(port), two(port);
    one.Send(RawPost("/v1/completions", kHangStream));
    two.Send(RawPost("/v1/completions", kHang));
    ASSERT_TRUE(Eventually([&] { return service.requests().size() == 2; }));
    const auto refused = client->Post("/v1/completions", R"({"prompt": "x"})", "application/json");
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 503);
    EXPECT_EQ(refused->get_header_value("Retry-After"), "1");
    EXPECT_THAT(refused->body, HasSubstr("too_many_requests"));
    EXPECT_EQ(client->Get("/health")->status, 200);
  }
  EXPECT_TRUE(Eventually([&] {
    const auto taken = client->Post("/v1/completions", R"({"prompt": "x"})", "application/json");
    return taken && taken->status == 200;
  }));
}

// All threads taken: by streams, by connections that say nothing, by halves of heads and of bodies, and by clients that
// do not read what they asked for.
TEST_F(GatewayTest, HealthIsAnsweredWhateverOthersDo) {
  Start({.posts_max = 4});
  std::vector<std::unique_ptr<RawConnection>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::make_unique<RawConnection>(port));
    others.back()->Send(RawPost("/v1/completions", kHangStream));
  }
  ASSERT_TRUE(Eventually([&] { return service.requests().size() == 4; }));
  std::string many_gets;
  for (int i = 0; i < 2000; ++i) many_gets += "GET /v1/models HTTP/1.1\r\n\r\n";
  const std::string halves[] = {"", "GET /hea", RawPost("/v1/completions", R"({"prompt": "x"})").substr(0, 90),
                                many_gets};
  for (int i = 0; i < 120; ++i) {
    others.push_back(std::make_unique<RawConnection>(port));
    others.back()->Send(halves[i % 4]);
    if (i % 10 != 9) continue;
    httplib::Client fresh("127.0.0.1", port);
    const auto health = fresh.Get("/health");
    ASSERT_TRUE(health) << "with " << others.size() << " others: " << httplib::to_string(health.error());
    EXPECT_EQ(health->status, 200);
  }
  EXPECT_EQ(service.cancelled(), 0) << "the streams go on";
}

TEST_F(GatewayTest, RequestsThatTakeTooLongAreDropped) {
  Start({.times = {.idle = absl::Milliseconds(200), .request = absl::Milliseconds(200)}});
  RawConnection silent(port), head(port), body(port);
  head.Send("GET / HTTP/1.1\r\n");
  body.Send(RawPost("/v1/completions", kHang).substr(0, 100));
  EXPECT_EQ(silent.ReadAll() + head.ReadAll() + body.ReadAll(), "");
}

TEST_F(GatewayTest, WhatIsNoRequestIsAnsweredAndTheConnectionEnds) {
  Start();
  const std::string post = "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {"GET / HTTP/1.1\r\nA: " + std::string(20000, 'x'), "HTTP/1.1 431"},
      {std::string(100000, 'x'), "HTTP/1.1 431"},
      {"GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n\r\n", "HTTP/1.1 431"},
      {"GET / HTTP/1.1\r\nA: " + std::string(9000, 'x') + "\r\n\r\n", "HTTP/1.1 431"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 405"},
      {"GET / HTTP/9.9\r\n\r\n", "HTTP/1.1 400"},
      {"GET /\r\n\r\n", "HTTP/1.1 400"},
      {post + "Content-Length: 5000000\r\n\r\n" + std::string(5000000, ' '), "HTTP/1.1 413"},
      {post + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n", "HTTP/1.1 411"}};
  for (const auto& [bytes, answer] : cases) {
    RawConnection connection(port);
    connection.Send(bytes + "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(connection.ReadAll(), StartsWith(answer)) << bytes.substr(0, 60);
  }
  RawConnection ranges(port);
  std::string many = "Range: bytes=";
  for (int i = 0; i < 2500; ++i) many += "0-,";  // 7.5 KiB
  ranges.Send("GET /v1/models HTTP/1.1\r\n" + many + "0-\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(ranges.ReadAll(), StartsWith("HTTP/1.1 200"));
}

TEST_F(GatewayTest, RequestsFollowOneAnother) {
  Start();
  RawConnection connection(port);
  connection.Send("GET /health HTTP/1.1\r\n\r\n" + RawPost("/tokenize", R"({"prompt": "a"})") +
                  "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string all = connection.ReadAll();
  size_t answers = 0;
  for (size_t at = 0; (at = all.find("HTTP/1.1 200 OK", at)) != std::string::npos; ++at) ++answers;
  EXPECT_EQ(answers, 3u) << all;
  RawConnection waits(port);
  waits.Send(
      "POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 15\r\n"
      "Expect: 100-continue\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(waits.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  waits.Send(R"({"prompt": "a"})");
  EXPECT_THAT(waits.ReadAll(), HasSubstr("[97]"));
}

TEST_F(GatewayTest, DrainingEndsConnectionsWithTheirAnswers) {
  Start();
  client->set_keep_alive(true);
  EXPECT_EQ(client->Get("/health")->status, 200);
  auto stream = std::make_unique<RawConnection>(port);
  stream->Send(RawPost("/v1/completions", kHangStream));
  stream->ReadUntil("\"B\"");
  gateway->Drain(absl::ZeroDuration());
  const auto health = client->Get("/health");
  EXPECT_EQ(health->status, 503);
  EXPECT_EQ(health->get_header_value("Connection"), "close");
  EXPECT_EQ(service.cancelled(), 0) << "the stream goes on";
  stream.reset();
  gateway->Drain(absl::Minutes(10));  // the test's own limit of time says whether it waits for nothing
  EXPECT_TRUE(Eventually([&] { return service.cancelled() == 1; }));
}

TEST_F(GatewayTest, TwoGatewaysCannotShareAPort) {
  Start();
  const auto second = Gateway::Start({.listen = gateway->address()}, rpc::NewChannel(service.address()));
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Address already in use"));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Gateway::Start({.listen = "nowhere"}, rpc::NewChannel(service.address())).status()));
}

}  // namespace
}  // namespace kvrelay::http
