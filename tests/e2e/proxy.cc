#include "tests/e2e/proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kvrelay::e2e {
namespace {

constexpr size_t kPipeBytes = 256 << 10;
// A slow link moves its bytes in steps of this length.
constexpr int kTickMs = 10;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Closing then sends a reset, as a lost connection does.
void Reset(int fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(fd);
}

int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

void Prepare(int fd) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Proxy>> Proxy::Start() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    close(listener);
    return absl::InternalError(absl::StrCat("a proxy cannot listen: ", strerror(errno)));
  }
  return std::unique_ptr<Proxy>(
      new Proxy(listener, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), absl::StrCat("127.0.0.1:", ntohs(address.sin_port))));
}

Proxy::Proxy(int listener, int wake, std::string address)
    : listener_(listener), wake_(wake), address_(std::move(address)), thread_([this] { Loop(); }) {}

Proxy::~Proxy() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  Wake();
  thread_.join();
  for (Connection& connection : connections_) Close(&connection);
  close(listener_);
  close(wake_);
}

void Proxy::SetTarget(const std::string& address) {
  std::lock_guard lock(mutex_);
  if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &target_port_)) target_port_ = 0;
}

void Proxy::Set(Link link, double bytes_per_second) {
  {
    std::lock_guard lock(mutex_);
    link_ = link;
    bytes_per_second_ = bytes_per_second;
    if (link == Link::kCut) {
      for (Connection& connection : connections_) Close(&connection);
      connections_.clear();
    }
  }
  Wake();
}

void Proxy::Wake() {
  const uint64_t one = 1;
  if (write(wake_, &one, sizeof(one)) < 0) return;  // full: it is awake already
}

void Proxy::Loop() {
  int timeout_ms = 0;
  while (true) {
    std::vector<pollfd> wanted = {{wake_, POLLIN, 0}};
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
      if (link_ != Link::kHalfOpen) {
        wanted.push_back({listener_, POLLIN, 0});
        for (const Connection& connection : connections_) {
          for (const Pipe& pipe : connection.pipes) {
            if (!pipe.ended && pipe.waiting.size() < kPipeBytes) wanted.push_back({pipe.from, POLLIN, 0});
            if (!pipe.waiting.empty() && link_ != Link::kSlow) wanted.push_back({pipe.to, POLLOUT, 0});
          }
        }
      }
    }
    poll(wanted.data(), wanted.size(), timeout_ms);
    uint64_t count = 0;
    if (read(wake_, &count, sizeof(count)) < 0) count = 0;  // it was not that
    timeout_ms = Serve();
  }
}

int Proxy::Serve() {
  std::lock_guard lock(mutex_);
  if (link_ == Link::kHalfOpen) return -1;
  Accept();
  for (auto it = connections_.begin(); it != connections_.end();) {
    bool lives = true;
    for (Pipe& pipe : it->pipes) lives = lives && Forward(&pipe);
    if (lives && !(it->pipes[0].closed && it->pipes[1].closed)) {
      ++it;
      continue;
    }
    Close(&*it);
    it = connections_.erase(it);
  }
  return link_ == Link::kSlow ? kTickMs : -1;
}

void Proxy::Accept() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = link_ == Link::kCut || target_port_ == 0 ? -1 : ConnectTo(target_port_);
    if (server < 0) {
      Reset(client);
      continue;
    }
    Prepare(client);
    Prepare(server);
    Connection& connection = connections_.emplace_back();
    connection.pipes[0].from = connection.pipes[1].to = client;
    connection.pipes[0].to = connection.pipes[1].from = server;
  }
}

// False if the connection is broken.
bool Proxy::Forward(Pipe* pipe) {
  char buffer[64 << 10];
  while (!pipe->ended && pipe->waiting.size() < kPipeBytes) {
    const ssize_t got = recv(pipe->from, buffer, sizeof(buffer), 0);
    if (got < 0 && errno != EAGAIN) return false;
    if (got < 0) break;
    pipe->ended = got == 0;
    pipe->waiting.append(buffer, static_cast<size_t>(got));
  }
  size_t most = pipe->waiting.size();
  if (link_ == Link::kSlow) {
    const double step = bytes_per_second_ * kTickMs / 1e3;
    pipe->allowance = std::min(pipe->allowance + step, step + 1);
    most = std::min(most, static_cast<size_t>(pipe->allowance));
  }
  const ssize_t sent = most == 0 ? 0 : send(pipe->to, pipe->waiting.data(), most, MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) return false;
  if (sent > 0) {
    pipe->waiting.erase(0, static_cast<size_t>(sent));
    pipe->allowance -= static_cast<double>(sent);
  }
  if (pipe->ended && pipe->waiting.empty() && !pipe->closed) {
    shutdown(pipe->to, SHUT_WR);
    pipe->closed = true;
  }
  return true;
}

void Proxy::Close(Connection* connection) {
  Reset(connection->pipes[0].from);
  Reset(connection->pipes[0].to);
}

}  // namespace kvrelay::e2e
