#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>

namespace kvrelay::sim {

void World::After(absl::Duration delay, Process* process, Task task) {
  events_.push_back({now_ + std::max(delay, absl::ZeroDuration()), ++events_made_, process, std::move(task)});
  std::push_heap(events_.begin(), events_.end(), Later);
}

bool World::Run(absl::Duration until, const std::function<bool()>& done) {
  while (!events_.empty() && events_.front().at <= until) {
    std::pop_heap(events_.begin(), events_.end(), Later);
    Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.at;
    if (event.process != nullptr && !event.process->alive_) continue;
    if (event.process != nullptr && event.process->suspended_) {
      event.process->waiting_.push_back(std::move(event.task));
      continue;
    }
    event.task();
    if (done()) return true;
  }
  now_ = std::max(now_, until);
  return done();
}

void World::Clear() {
  while (!events_.empty()) std::exchange(events_, {});  // what goes may leave something behind
}

void World::Kill(Process* process) {
  process->alive_ = false;
  process->waiting_.clear();
}

void World::Continue(Process* process) {
  process->suspended_ = false;
  for (Task& task : std::exchange(process->waiting_, {})) After(absl::ZeroDuration(), process, std::move(task));
}

void World::Trace(const std::string& who, const std::string& what) const {
  if (trace_) std::printf("%12.6f  %-10s %s\n", absl::ToDoubleSeconds(now_), who.c_str(), what.c_str());
}

}  // namespace kvrelay::sim
