// What heads of requests pass, and what becomes of the label that a client gives.
#include "router/http/request_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "router/http/request_context.h"

namespace kvrelay::http {
namespace {

using ::testing::HasSubstr;

TEST(Head, WhatPasses) {
  const auto pass = [](const std::string& raw) {
    const Result<RequestHead> head = CheckHead(raw);
    const auto* error = std::get_if<ApiError>(&head);
    EXPECT_EQ(error, nullptr) << error->Json();
    return error == nullptr ? std::get<RequestHead>(head) : RequestHead{};
  };
  EXPECT_EQ(pass("GET /health HTTP/1.1\r\nRange: bytes=0-\r\nHost: x\r\naccept-encoding: gzip\r\n\r\n").bytes,
            "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  const RequestHead post = pass(
      "POST /x HTTP/1.1\r\ncontent-type: Application/JSON ; charset=utf-8\r\nContent-Length: 12\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_TRUE(post.is_post && post.wants_continue);
  EXPECT_EQ(post.body_bytes, 12u);
  EXPECT_THAT(post.bytes, testing::Not(HasSubstr("Expect")));
}

TEST(Head, WhatIsRefused) {
  const std::string post = "POST /x HTTP/1.1\r\nContent-Type: application/json\r\n";
  std::string many = "GET / HTTP/1.1\r\n";
  for (size_t i = 0; i <= kHeadersMax; ++i) many += "A: b\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {"PUT / HTTP/1.1\r\n\r\n", 405},
      {"PRI * HTTP/2.0\r\n\r\n", 405},
      {"get / HTTP/1.1\r\n\r\n", 405},
      {"\x16\x03\x01\x02\r\n\r\n", 400},
      {std::string("GET /\0 HTTP/1.1\r\n\r\n", 19), 400},
      {"GET / HTTP/1.1\r\nA: b\nB: c\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nA : b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 400},
      {many + "\r\n", 431},
      {post + "\r\n", 411},
      {post + "Transfer-Encoding: chunked\r\n\r\n", 411},
      {post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
      {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {post + "Content-Length: -1\r\n\r\n", 400},
      {post + "Content-Length: 0x5\r\n\r\n", 400},
      {post + "Content-Length: \r\n\r\n", 400},
      {post + "Content-Length: 5, 5\r\n\r\n", 400},
      {post + "Content-Length: 4194305\r\n\r\n", 413},
      {post + "Content-Length: 99999999999999999999999999\r\n\r\n", 413},
      {post + "Content-Length: 5\r\nContent-Encoding: gzip\r\n\r\n", 415},
      {"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 415},
      {"POST /x HTTP/1.1\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\n", 415},
      {"POST /x HTTP/1.1\r\nContent-Length: 5\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n", 415}};
  for (const auto& [raw, status] : cases) {
    const Result<RequestHead> head = CheckHead(raw);
    ASSERT_TRUE(std::holds_alternative<ApiError>(head)) << raw;
    EXPECT_EQ(std::get<ApiError>(head).status, status) << raw;
  }
}

TEST(RequestId, IsWhatWasSentWithoutWhatDoesNotBelong) {
  EXPECT_EQ(RequestId("abc-1.2_3"), "abc-1.2_3");
  EXPECT_EQ(RequestId("a b\tc\x7f\xc3\xa4"
                      "d"),
            "abcd");
  EXPECT_EQ(RequestId(std::string(5000, 'x')), std::string(kRequestIdBytesMax, 'x'));
  EXPECT_EQ(RequestId("").size(), 18u);
  EXPECT_NE(RequestId(" "), RequestId(" "));
}

}  // namespace
}  // namespace kvrelay::http
