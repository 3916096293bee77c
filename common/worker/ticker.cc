#include "common/worker/ticker.h"

#include <utility>

namespace kvrelay::worker {

Ticker::Ticker(absl::Duration interval) : interval_(interval), thread_([this] { Loop(); }) {}

Ticker::~Ticker() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Ticker::Add(std::weak_ptr<TickListener> listener) {
  std::lock_guard lock(mutex_);
  listeners_.push_back(std::move(listener));
}

void Ticker::Loop() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, absl::ToChronoMilliseconds(interval_), [this] { return stopping_; })) {
    lock.unlock();
    TickAll();
    lock.lock();
  }
}

// Unlocked while it calls: a listener may end, or add another, meanwhile.
void Ticker::TickAll() {
  std::vector<std::shared_ptr<TickListener>> live;
  {
    std::lock_guard lock(mutex_);
    std::vector<std::weak_ptr<TickListener>> kept;
    for (std::weak_ptr<TickListener>& listener : listeners_) {
      if (std::shared_ptr<TickListener> alive = listener.lock()) {
        live.push_back(std::move(alive));
        kept.push_back(std::move(listener));
      }
    }
    listeners_ = std::move(kept);
  }
  for (const std::shared_ptr<TickListener>& listener : live) listener->OnTick();
}

}  // namespace kvrelay::worker
