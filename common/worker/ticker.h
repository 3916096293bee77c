// Calls listeners every heartbeat interval; `Ticker` does it from one thread of its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace kvrelay::worker {

inline constexpr absl::Duration kHeartbeatInterval = absl::Milliseconds(500);

class TickListener {
 public:
  virtual ~TickListener() = default;
  // Must not block.
  virtual void OnTick() = 0;
};

// Thread-safe.
class TickSource {
 public:
  virtual ~TickSource() = default;
  // Until the listener is gone. Ticks may still come while it goes.
  virtual void Add(std::weak_ptr<TickListener> listener) = 0;
};

class Ticker final : public TickSource {
 public:
  explicit Ticker(absl::Duration interval = kHeartbeatInterval);
  ~Ticker() override;

  void Add(std::weak_ptr<TickListener> listener) override;

 private:
  void Loop();
  void TickAll();

  const absl::Duration interval_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<std::weak_ptr<TickListener>> listeners_;
  std::thread thread_;
};

}  // namespace kvrelay::worker
