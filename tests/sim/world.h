// The world of a simulation: virtual time, the events that are due in it, chance, and the trace. One thread, and
// nothing but the seed decides what happens.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace kvrelay::sim {

// How often routers look after their workers: as in production.
constexpr absl::Duration kRouterTick = absl::Milliseconds(250);

using Task = std::function<void()>;

// A process as far as events are concerned: what is due in a dead one is dropped, in a suspended one it waits.
class Process {
 public:
  Process(std::string name, int node) : name_(std::move(name)), node_(node) {}
  virtual ~Process() = default;

  const std::string& name() const { return name_; }
  // Where it runs; a process that takes another's place has the same.
  int node() const { return node_; }
  bool alive() const { return alive_; }
  bool suspended() const { return suspended_; }

 private:
  friend class World;
  const std::string name_;
  const int node_;
  bool alive_ = true;
  bool suspended_ = false;
  std::deque<Task> waiting_;
};

class World final : public Clock {
 public:
  World(uint64_t seed, bool trace) : trace_(trace), random_(seed * 0x9E3779B97F4A7C15u + 1) {}

  absl::Duration Now() const override { return now_; }
  int64_t UnixNanos() const override { return absl::ToInt64Nanoseconds(now_); }

  // Runs the task after `delay`, in the process if one is given, which must outlive the world.
  void After(absl::Duration delay, Process* process, Task task);
  // Runs what is due until `done` says so or until the time; whether `done` did.
  bool Run(absl::Duration until, const std::function<bool()>& done);

  // Forgets all that is due.
  void Clear();

  // kill -9.
  void Kill(Process* process);
  // SIGSTOP and SIGCONT.
  void Suspend(Process* process) { process->suspended_ = true; }
  void Continue(Process* process);

  // Uniform in [first, last].
  int Pick(int first, int last) { return static_cast<int>(first + random_() % (last - first + 1)); }
  absl::Duration Pick(absl::Duration first, absl::Duration last) {
    return first + (last - first) * static_cast<double>(random_() % 4096) / 4096;
  }
  bool Chance(double probability) { return (random_() % 65536) < probability * 65536; }

  bool tracing() const { return trace_; }
  void Trace(const std::string& who, const std::string& what) const;

 private:
  struct Event {
    absl::Duration at;
    uint64_t number;  // of two at one time the older goes first
    Process* process;
    Task task;
  };
  static bool Later(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.number > b.number; }

  const bool trace_;
  std::mt19937_64 random_;
  absl::Duration now_ = absl::Seconds(1000);
  uint64_t events_made_ = 0;
  std::vector<Event> events_;  // a heap
};

}  // namespace kvrelay::sim
