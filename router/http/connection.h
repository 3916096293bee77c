// One HTTP connection: collects a request within limits of size and time, then is the stream that the HTTP library
// reads it from and writes the answer to. So the library itself never waits for a client's bytes.
//
// Used by one thread; another one may shut its socket down.
#pragma once

#include <string>

#include "router/http/connection_times.h"
#include "router/http/library.h"
#include "router/http/request_head.h"
#include "router/http/transport.h"

namespace kvrelay::http {

class Connection final : public httplib::Stream {
 public:
  // Takes the socket over. `ssl` null: no TLS.
  Connection(int fd, SslSession ssl, const ConnectionTimes& times);

  enum class Outcome { kRequest, kClosed, kRefused };
  // Waits for the next request and reads it in full. kRefused: answer with `refusal`, then close.
  Outcome ReadRequest(ApiError& refusal);
  bool is_post() const { return is_post_; }
  // Whether the library has read it to its end. Otherwise it found it at fault, and what follows is no request.
  bool consumed() const { return read_from_ == request_end_; }
  // Answers outside of the library.
  void Refuse(const ApiError& error);

  // Whether the client is still there. A client that has closed its sending side counts as gone.
  bool Alive() const;

  // httplib::Stream, for the library.
  bool is_readable() const override { return read_from_ < request_end_; }
  bool is_writable() const override { return Alive(); }
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  int socket() const override { return transport_.fd(); }

 private:
  bool Wait(short events, absl::Duration until) const;
  // Takes in what the client sends next. False at the end of the connection or of the time.
  bool Receive(absl::Duration until);
  // Reads and drops what a refused client still sends, for a while: closing with unread bytes would take the answer
  // away.
  void Linger();

  Transport transport_;
  const ConnectionTimes times_;
  std::string input_;  // received; what is before read_from_ has been taken
  size_t read_from_ = 0;
  size_t request_end_ = 0;
  bool is_post_ = false;
};

}  // namespace kvrelay::http
