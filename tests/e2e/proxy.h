// A TCP relay on loopback that stands for the network between two processes: it can lose the connections, slow them
// down, or leave them half-open, that is, forward nothing more while both ends still believe in their connection.
//
// Thread-safe.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace kvrelay::e2e {

enum class Link {
  kWhole,     // forwards as fast as it can
  kSlow,      // each connection carries a bounded number of bytes a second in each direction
  kCut,       // existing connections are reset, new ones too
  kHalfOpen,  // connections stay, new ones can be made, and nothing comes through
};

class Proxy {
 public:
  // Listens on a free port of 127.0.0.1. Connections made before SetTarget are reset.
  static absl::StatusOr<std::unique_ptr<Proxy>> Start();
  ~Proxy();

  // Where connections made from now on lead: 127.0.0.1:PORT.
  void SetTarget(const std::string& address);
  // `bytes_per_second` counts for kSlow only. What a half-open link held back comes through when it is whole again.
  void Set(Link link, double bytes_per_second = 0);

  const std::string& address() const { return address_; }

 private:
  // One direction of a connection.
  struct Pipe {
    int from = -1, to = -1;
    std::string waiting;   // read and not yet written
    double allowance = 0;  // bytes that may be written now (kSlow)
    bool ended = false;    // `from` has no more
    bool closed = false;   // `to` knows
  };
  struct Connection {
    Pipe pipes[2];
  };

  Proxy(int listener, int wake, std::string address);
  void Loop();
  void Accept();
  // One round over all connections that poll found ready. Returns how long the next poll may wait, in milliseconds.
  int Serve();
  bool Forward(Pipe* pipe);
  void Close(Connection* connection);
  void Wake();

  const int listener_;
  const int wake_;
  const std::string address_;
  std::mutex mutex_;  // guards what follows
  Link link_ = Link::kWhole;
  double bytes_per_second_ = 0;
  int target_port_ = 0;
  bool stop_ = false;
  std::list<Connection> connections_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace kvrelay::e2e
