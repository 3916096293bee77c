// A gateway in front of a fake service, on loopback, and means to talk to it.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"
#include "router/http/gateway.h"
#include "router/http/library.h"
#include "tests/cli/fake_service.h"

namespace kvrelay::http {

// A connection without a library: for what no library sends.
class RawConnection {
 public:
  explicit RawConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~RawConnection() { close(fd_); }

  // False if the server does not want it any more.
  bool Send(const std::string& bytes) { return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0; }
  // All that comes until the text is there or the connection ends.
  std::string ReadUntil(const std::string& text) {
    std::string all;
    char buffer[4096];
    while (all.find(text) == std::string::npos) {
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  std::string ReadAll() { return ReadUntil("\x01\x02 never"); }

 private:
  const int fd_;
};

inline std::string RawPost(const std::string& path, const std::string& body) {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
                      "\r\n\r\n", body);
}

class GatewayTest : public ::testing::Test {
 protected:
  // Serves with these options; the address and the model's facts are filled in.
  void Start(GatewayOptions options = {}) {
    options.listen = "127.0.0.1:0";
    options.model_name = "fake";
    options.fingerprint = "00ff";
    options.context_length = 2048;
    auto started = Gateway::Start(options, rpc::NewChannel(service.address()));
    ASSERT_TRUE(started.ok()) << started.status();
    gateway = *std::move(started);
    port = rpc::ParseHostPort(gateway->address())->port;
    client = std::make_unique<httplib::Client>("127.0.0.1", port);
    client->set_read_timeout(60);
  }

  httplib::Result Post(const std::string& path, const std::string& body, const httplib::Headers& headers = {}) {
    auto result = client->Post(path, headers, body, "application/json");
    EXPECT_TRUE(result) << path << " " << body << ": " << httplib::to_string(result.error());
    return result;
  }
  // The answer's JSON. Fails the test unless it has this status.
  nlohmann::json Answer(const std::string& path, const std::string& body, int status = 200) {
    const auto result = Post(path, body);
    if (!result) return {};
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
    return nlohmann::json::parse(result->body);
  }

  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 3000 && !condition(); ++i) absl::SleepFor(absl::Milliseconds(10));
    return condition();
  }

  cli::FakeService service;
  std::unique_ptr<Gateway> gateway;
  std::unique_ptr<httplib::Client> client;
  int port = 0;
};

}  // namespace kvrelay::http
