#include "tests/sim/network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kvrelay::sim {
namespace {

// Of HTTP/2: 10 s of silence, then 5 s without an answer.
constexpr absl::Duration kKeepalive = absl::Seconds(15);

}  // namespace

Call::Call(Network* network, Process* client, Process* server, uint64_t number)
    : network_(network), number_(number), to_server_{.process = server}, to_client_{.process = client} {}

void Call::Send(Pipe* pipe, Task deliver) {
  const bool from_client = pipe == &to_server_;
  if (pipe->closed || (from_client ? cancelled_ : server_ended_)) return;
  pipe->messages.push_back(std::move(deliver));
  Schedule(pipe);
}

void Call::Schedule(Pipe* pipe) {
  World& world = network_->world();
  pipe->last_at = std::max(pipe->last_at, world.Now() + network_->Latency(network_->LinkOf(*this)));
  world.After(pipe->last_at - world.Now(), pipe->process,
              [self = shared_from_this(), pipe, generation = pipe->generation] {
                if (pipe->generation == generation) self->Arrive(pipe);
              });
}

void Call::Arrive(Pipe* pipe) {
  if (network_->LinkOf(*this).silent || (dozes_ && pipe == &to_client_)) {
    ++pipe->held;
    return;
  }
  const Task deliver = std::move(pipe->messages.front());
  pipe->messages.pop_front();
  deliver();
}

void Call::Drop(Pipe* pipe) {
  ++pipe->generation;
  pipe->messages.clear();
  pipe->held = 0;
}

void Call::Flush(Pipe* pipe) {
  for (int held = std::exchange(pipe->held, 0); held > 0; --held) Schedule(pipe);
  if (pipe == &to_server_ && std::exchange(cancel_held_, false)) CancelArrives();
}

void Call::Wake() {
  dozes_ = false;
  Flush(&to_client_);
}

void Call::Cancel() {
  if (cancelled_ || client_over_) return;
  cancelled_ = true;
  World& world = network_->world();
  // What is on the way may still be heard, until the end is.
  world.After(world.Pick(absl::ZeroDuration(), absl::Milliseconds(2)), client(),
              [self = shared_from_this()] { self->ClientHears(absl::CancelledError("cancelled by the client")); });
  if (to_server_.closed) return;
  CancelArrives();
}

void Call::CancelArrives() {
  network_->world().After(network_->Latency(network_->LinkOf(*this)), server(), [self = shared_from_this()] {
    if (self->network_->LinkOf(*self).silent) {
      self->cancel_held_ = true;
      return;
    }
    self->Drop(&self->to_server_);
    self->ServerHearsCancel();
  });
}

void Call::End(const absl::Status& status) {
  if (server_ended_) return;
  Send(&to_client_, [self = shared_from_this(), status] { self->ClientHears(status); });
  server_ended_ = true;
  Drop(&to_server_);
  to_server_.closed = true;
  network_->world().After(absl::Microseconds(50), server(), [self = shared_from_this()] { self->ServerIsDone(); });
}

void Call::Fail(const absl::Status& status) {
  if (server_ended_) return;
  if (network_->world().Chance(0.5)) Drop(&to_client_);
  End(status);
}

void Call::ClientHears(const absl::Status& status) {
  if (std::exchange(client_over_, true)) return;
  Drop(&to_client_);
  to_client_.closed = true;
  if (auto told = std::exchange(on_end, nullptr)) told(status);
}

void Call::ServerHearsCancel() {
  if (std::exchange(server_ended_, true)) return;
  to_server_.closed = true;
  if (Task told = std::exchange(on_cancel, nullptr)) told();
  network_->world().After(absl::Microseconds(50), server(), [self = shared_from_this()] { self->ServerIsDone(); });
}

void Call::ServerIsDone() {
  if (std::exchange(server_over_, true)) return;
  on_cancel = nullptr;
  if (Task told = std::exchange(on_done, nullptr)) told();
}

void Call::Break(bool late_server) {
  World& world = network_->world();
  if (world.Chance(0.5) || to_client_.held > 0) Drop(&to_client_);
  to_client_.closed = true;
  const absl::Duration last = std::max(to_client_.last_at - world.Now(), absl::ZeroDuration());
  world.After(last + world.Pick(absl::Microseconds(1), absl::Milliseconds(1)), client(),
              [self = shared_from_this()] { self->ClientHears(absl::UnavailableError("the connection broke")); });
  if (!late_server) Drop(&to_server_);
  to_server_.closed = true;
  const absl::Duration later = late_server ? world.Pick(absl::ZeroDuration(), kKeepalive) : absl::Milliseconds(1);
  world.After(later, server(), [self = shared_from_this()] {
    self->Drop(&self->to_server_);
    self->ServerHearsCancel();
  });
}

void Call::Bury(Process* dead) {
  if (client() == dead) ClientHears(absl::UnavailableError("the process is no more"));
  if (server() != dead) return;
  Drop(&to_server_);
  to_server_.closed = true;
  if (!std::exchange(server_ended_, true)) {
    if (Task told = std::exchange(on_cancel, nullptr)) told();
  }
  ServerIsDone();
}

std::shared_ptr<Call> Network::Open(Process* client, int node) {
  Process* server = At(node);
  auto call = std::make_shared<Call>(this, client, server, ++calls_made_);
  calls_.push_back(call);
  if (!server->alive() || LinkOf(*call).cut) {
    call->Break(/*late_server=*/false);
    call->server_ended_ = call->server_over_ = true;
  } else if (server->suspended()) {
    world_->After(kKeepalive, nullptr, [call] {
      if (call->server()->suspended() && !call->over()) call->Break(/*late_server=*/false);
    });
  }
  return call;
}

absl::Duration Network::Latency(const Link& link) {
  const absl::Duration usual = world_->Chance(0.02) ? world_->Pick(absl::Milliseconds(2), absl::Milliseconds(20))
                                                    : world_->Pick(absl::Microseconds(50), absl::Milliseconds(1));
  return link.slow ? usual * 50 : usual;
}

template <typename Do>
void Network::ForEach(const Do& act) {
  std::vector<std::shared_ptr<Call>> live;
  std::erase_if(calls_, [&](const std::weak_ptr<Call>& weak) {
    std::shared_ptr<Call> call = weak.lock();
    if (call == nullptr || call->over()) return true;
    live.push_back(std::move(call));
    return false;
  });
  for (const std::shared_ptr<Call>& call : live) act(call);
}

void Network::BreakAll(int a, int b, bool late_server) {
  ForEach([&](const std::shared_ptr<Call>& call) {
    if (Between(call->client()->node(), call->server()->node()) == Between(a, b)) call->Break(late_server);
  });
}

void Network::Cut(int a, int b) {
  Link& link = links_[Between(a, b)];
  link.cut = true;
  ++link.faults;
  BreakAll(a, b, /*late_server=*/world_->Chance(0.5));
}

void Network::Silence(int a, int b) {
  Link& link = links_[Between(a, b)];
  link.silent = true;
  const uint64_t fault = ++link.faults;
  world_->After(kKeepalive, nullptr, [this, a, b, fault] {
    Link& link = links_[Between(a, b)];
    if (!link.silent || link.faults != fault) return;
    link.silent = false;
    link.cut = true;
    BreakAll(a, b, /*late_server=*/false);
  });
}

void Network::Slow(int a, int b) {
  links_[Between(a, b)].slow = true;
  ++links_[Between(a, b)].faults;
}

void Network::Heal(int a, int b) {
  Link& link = links_[Between(a, b)];
  link.cut = link.silent = link.slow = false;
  ++link.faults;
  ForEach([&](const std::shared_ptr<Call>& call) {
    if (Between(call->client()->node(), call->server()->node()) != Between(a, b)) return;
    call->Flush(&call->to_server_);
    call->Flush(&call->to_client_);
  });
}

void Network::Kill(Process* process) {
  world_->Kill(process);
  ForEach([&](const std::shared_ptr<Call>& call) {
    if (call->client() != process && call->server() != process) return;
    call->Break(/*late_server=*/false);
    call->Bury(process);
  });
}

void Network::Suspend(Process* process) {
  world_->Suspend(process);
  world_->After(kKeepalive, nullptr, [this, process] {
    if (!process->suspended() || !process->alive()) return;
    ForEach([&](const std::shared_ptr<Call>& call) {
      if (call->client() == process || call->server() == process) call->Break(/*late_server=*/false);
    });
  });
}

bool Network::Sound(int a, int b) const {
  const auto found = links_.find(Between(a, b));
  return found == links_.end() || found->second.sound();
}

std::vector<std::shared_ptr<Call>> Network::Open() {
  std::vector<std::shared_ptr<Call>> open;
  ForEach([&](const std::shared_ptr<Call>& call) { open.push_back(call); });
  return open;
}

}  // namespace kvrelay::sim
