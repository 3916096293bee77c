// The bytes of one connection, plain or in TLS. Never waits: says what to wait for.
//
// Used by one thread.
#pragma once

#include <openssl/types.h>
#include <sys/types.h>

#include <memory>

namespace kvrelay::http {

struct SslDeleter {
  void operator()(SSL* ssl) const;
};
using SslSession = std::unique_ptr<SSL, SslDeleter>;  // null: no TLS

class Transport {
 public:
  // Takes the socket over.
  Transport(int fd, SslSession ssl);
  ~Transport();
  Transport(const Transport&) = delete;

  struct Progress {
    ssize_t bytes = 0;  // moved; at least one, or else:
    short wait = 0;     // POLLIN or POLLOUT; 0: this is the end
  };
  Progress Read(char* to, size_t size);
  Progress Write(const char* from, size_t size);

  int fd() const { return fd_; }

 private:
  Progress OfTls(int result) const;

  const int fd_;
  const SslSession ssl_;
};

}  // namespace kvrelay::http
