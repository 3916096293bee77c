#include "router/http/transport.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace kvrelay::http {
namespace {

Transport::Progress OfSocket(ssize_t result, short wait) {
  if (result > 0) return {.bytes = result};
  const bool later = result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return {.wait = later ? wait : short{0}};
}

}  // namespace

void SslDeleter::operator()(SSL* ssl) const { SSL_free(ssl); }

Transport::Transport(int fd, SslSession ssl) : fd_(fd), ssl_(std::move(ssl)) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  if (ssl_ == nullptr) return;
  SSL_set_fd(ssl_.get(), fd_);
  SSL_set_accept_state(ssl_.get());  // the first Read shakes hands
  SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

Transport::~Transport() {
  if (ssl_ != nullptr && SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  shutdown(fd_, SHUT_RDWR);
  close(fd_);
}

Transport::Progress Transport::OfTls(int result) const {
  if (result > 0) return {.bytes = result};
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {.wait = POLLIN};
    case SSL_ERROR_WANT_WRITE:
      return {.wait = POLLOUT};
    default:
      return {};
  }
}

Transport::Progress Transport::Read(char* to, size_t size) {
  if (ssl_ == nullptr) return OfSocket(recv(fd_, to, size, 0), POLLIN);
  ERR_clear_error();
  return OfTls(SSL_read(ssl_.get(), to, static_cast<int>(std::min<size_t>(size, INT_MAX))));
}

Transport::Progress Transport::Write(const char* from, size_t size) {
  if (ssl_ == nullptr) return OfSocket(send(fd_, from, size, MSG_NOSIGNAL), POLLOUT);
  ERR_clear_error();
  return OfTls(SSL_write(ssl_.get(), from, static_cast<int>(std::min<size_t>(size, INT_MAX))));
}

}  // namespace kvrelay::http
