// The network of a simulation: calls between processes, and what happens to them when a link or a process fails.
//
// A call is a pair of ordered streams of messages with a random latency each; calls do not wait for one another. A
// message is the code that runs where it arrives. Like in gRPC,
//   - the client's Cancel reaches the server after a latency, may overtake messages, and drops those that it overtakes;
//   - the server's End follows its messages, its Fail may overtake and drop them;
//   - a dead process, a cut link or a silent one (keepalive, 15 s) fails the call with UNAVAILABLE at the client and as
//   a
//     cancellation at the server.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/world.h"

namespace kvrelay::sim {

class Network;

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Network* network, Process* client, Process* server, uint64_t number);

  // Of the client. `on_end` is told once, and is the last thing it hears of the call.
  void ToServer(Task deliver) { Send(&to_server_, std::move(deliver)); }
  void Cancel();
  std::function<void(const absl::Status&)> on_end;
  // Takes no message until Wake.
  void Doze() { dozes_ = true; }
  void Wake();

  // Of the server. `on_cancel` is told at most once, and not after an end of the server's own; `on_done` once, last.
  void ToClient(Task deliver) { Send(&to_client_, std::move(deliver)); }
  void End(const absl::Status& status);
  void Fail(const absl::Status& status);
  // Messages on the way to the client.
  size_t Unread() const { return to_client_.messages.size(); }
  Task on_cancel, on_done;

  Process* client() const { return to_client_.process; }
  Process* server() const { return to_server_.process; }
  bool over() const { return client_over_ && server_over_; }
  bool server_over() const { return server_over_; }

 private:
  friend class Network;
  struct Pipe {
    Process* process;  // where it leads
    absl::Duration last_at = absl::ZeroDuration();
    uint32_t generation = 0;  // arrivals of an older one are dropped
    bool closed = false;
    std::deque<Task> messages = {};  // on the way, in order: every arrival delivers the first
    int held = 0;                    // arrivals that a silent link or a dozing client holds back
  };

  void Send(Pipe* pipe, Task deliver);
  void Schedule(Pipe* pipe);
  void Arrive(Pipe* pipe);
  void CancelArrives();
  void Drop(Pipe* pipe);
  void Flush(Pipe* pipe);
  // The ends, where they are heard.
  void ClientHears(const absl::Status& status);
  void ServerHearsCancel();
  void ServerIsDone();
  // The connection is gone. A late server hears of it seconds after the client.
  void Break(bool late_server);
  // As Break, for the side that runs in a process that is no more.
  void Bury(Process* dead);

  Network* const network_;
  const uint64_t number_;
  Pipe to_server_, to_client_;
  bool cancelled_ = false;     // by the client
  bool dozes_ = false;         // the client
  bool cancel_held_ = false;   // by a silent link
  bool server_ended_ = false;  // by itself, or by a cancellation
  bool client_over_ = false, server_over_ = false;
};

class Network {
 public:
  explicit Network(World* world) : world_(world) {}
  World& world() { return *world_; }

  // The process that answers at a node.
  void Place(Process* process) { nodes_[process->node()] = process; }
  Process* At(int node) const { return nodes_.at(node); }

  // Opens a call to whatever runs at the node. Never fails at once: what goes wrong comes as on_end.
  std::shared_ptr<Call> Open(Process* client, int node);

  // Faults of the link between two nodes, until healed.
  void Cut(int a, int b);
  void Silence(int a, int b);
  void Slow(int a, int b);
  void Heal(int a, int b);
  // Faults of a process.
  void Kill(Process* process);
  void Suspend(Process* process);
  void Continue(Process* process) { world_->Continue(process); }

  bool Sound(int a, int b) const;
  // Calls that are not over at one end or the other, without those of status streams.
  std::vector<std::shared_ptr<Call>> Open();

 private:
  friend class Call;
  struct Link {
    bool cut = false, silent = false, slow = false;
    uint64_t faults = 0;
    bool sound() const { return !cut && !silent && !slow; }
  };
  using Ends = std::pair<int, int>;
  static Ends Between(int a, int b) { return {std::min(a, b), std::max(a, b)}; }
  Link& LinkOf(const Call& call) { return links_[Between(call.client()->node(), call.server()->node())]; }
  absl::Duration Latency(const Link& link);
  template <typename Do>
  void ForEach(const Do& act);
  void BreakAll(int a, int b, bool late_server);

  World* const world_;
  std::map<int, Process*> nodes_;
  std::map<Ends, Link> links_;
  uint64_t calls_made_ = 0;
  std::vector<std::weak_ptr<Call>> calls_;
};

}  // namespace kvrelay::sim
