#include "router/http/connection.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace kvrelay::http {
namespace {

constexpr absl::Duration kLingerTime = absl::Seconds(2);
constexpr size_t kReadBytes = 16 << 10;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

// A reader that falls behind by more than this and what its own system buffers holds its thread up; then the service
// notices. The default would grow to megabytes.
constexpr int kSendBufferBytes = 64 << 10;

absl::Duration Now() { return Clock::Real()->Now(); }

void IpAndPort(const sockaddr_storage& address, std::string& ip, int& port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    port = ntohs(v6.sin6_port);
  }
  ip = text;
}

}  // namespace

Connection::Connection(int fd, SslSession ssl, const ConnectionTimes& times)
    : transport_(fd, std::move(ssl)), times_(times) {
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
}

Connection::Outcome Connection::ReadRequest(ApiError& refusal) {
  input_.erase(0, read_from_);
  read_from_ = 0;
  is_post_ = false;
  if (input_.empty() && !Receive(Now() + times_.idle)) return Outcome::kClosed;
  const absl::Duration until = Now() + times_.request;
  size_t end = std::string::npos;
  for (size_t seen = 0; (end = input_.find(kHeadEnd, seen)) == std::string::npos && input_.size() <= kHeadBytesMax;) {
    seen = input_.size() < kHeadEnd.size() ? 0 : input_.size() - kHeadEnd.size() + 1;
    if (!Receive(until)) return Outcome::kClosed;
  }
  if (end > kHeadBytesMax) {
    refusal = {.status = 431, .message = absl::StrCat("the head of a request may have ", kHeadBytesMax, " bytes")};
    return Outcome::kRefused;
  }
  end += kHeadEnd.size();
  Result<RequestHead> checked = CheckHead(std::string_view(input_).substr(0, end));
  if (const auto* error = std::get_if<ApiError>(&checked)) {
    refusal = *error;
    return Outcome::kRefused;
  }
  const RequestHead& head = std::get<RequestHead>(checked);
  is_post_ = head.is_post;
  input_.replace(0, end, head.bytes);
  request_end_ = head.bytes.size() + head.body_bytes;
  if (head.wants_continue && input_.size() < request_end_) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    write(kContinue.data(), kContinue.size());
  }
  while (input_.size() < request_end_) {
    if (!Receive(until)) return Outcome::kClosed;
  }
  return Outcome::kRequest;
}

void Connection::Refuse(const ApiError& error) {
  const std::string body = error.Json();
  std::string answer = absl::StrCat("HTTP/1.1 ", error.status, " Refused\r\nContent-Type: application/json\r\n",
                                    "Connection: close\r\nContent-Length: ", body.size(), "\r\n");
  if (error.retry_after_s) absl::StrAppend(&answer, "Retry-After: ", *error.retry_after_s, "\r\n");
  absl::StrAppend(&answer, "\r\n", body);
  size_t sent = 0;
  while (sent < answer.size()) {
    const ssize_t n = write(answer.data() + sent, answer.size() - sent);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
  Linger();
}

void Connection::Linger() {
  shutdown(transport_.fd(), SHUT_WR);
  const absl::Duration until = Now() + kLingerTime;
  do {
    input_.clear();
  } while (Receive(until));
}

bool Connection::Alive() const {
  pollfd entry = {.fd = transport_.fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&entry, 1, 0) == 0;
}

bool Connection::Wait(short events, absl::Duration until) const {
  while (true) {
    const int64_t left_ms = absl::ToInt64Milliseconds(absl::Ceil(until - Now(), absl::Milliseconds(1)));
    if (left_ms <= 0) return false;
    pollfd entry = {.fd = transport_.fd(), .events = events, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(left_ms));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool Connection::Receive(absl::Duration until) {
  char buffer[kReadBytes];
  while (true) {
    const Transport::Progress progress = transport_.Read(buffer, sizeof(buffer));
    input_.append(buffer, static_cast<size_t>(progress.bytes));
    if (progress.bytes > 0) return true;
    if (progress.wait == 0 || !Wait(progress.wait, until)) return false;
  }
}

ssize_t Connection::read(char* to, size_t size) {
  // All of a request is here before the library begins: there is nothing to wait for.
  const size_t n = input_.copy(to, std::min(size, request_end_ - read_from_), read_from_);
  read_from_ += n;
  if (read_from_ == input_.size()) {  // a stream may go on for long; its request need not be here twice
    input_ = std::string();
    read_from_ = request_end_ = 0;
  }
  return static_cast<ssize_t>(n);
}

ssize_t Connection::write(const char* from, size_t size) {
  while (size > 0) {
    const Transport::Progress progress = transport_.Write(from, size);
    if (progress.bytes > 0) return progress.bytes;
    if (progress.wait == 0 || !Wait(progress.wait, Now() + times_.write)) return -1;
  }
  return 0;
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getpeername(transport_.fd(), reinterpret_cast<sockaddr*>(&address), &length) == 0) IpAndPort(address, ip, port);
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getsockname(transport_.fd(), reinterpret_cast<sockaddr*>(&address), &length) == 0) IpAndPort(address, ip, port);
}

}  // namespace kvrelay::http
