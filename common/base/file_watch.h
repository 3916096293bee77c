// Tells when files change: a thread of its own looks at them at an interval. Looks through symbolic links, so that a
// directory of secrets that is swapped as a whole, as Kubernetes does, counts as a change.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/time/time.h"

namespace kvrelay {

// Thread-safe.
class FileWatch {
 public:
  // `on_change` comes on the watch's thread, once for all files that differ from the last look; the first look is taken
  // before the constructor returns. A file that is gone differs from one that is there.
  FileWatch(std::vector<std::string> paths, absl::Duration interval, std::function<void()> on_change);
  // Waits for an `on_change` that runs.
  ~FileWatch();

 private:
  // Device, inode, bytes, and time of the last change in nanoseconds; all 0: there is no such file.
  using Stamp = std::tuple<uint64_t, uint64_t, int64_t, int64_t>;

  static Stamp Look(const std::string& path);
  std::vector<Stamp> LookAtAll() const;
  void Run();

  const std::vector<std::string> paths_;
  const absl::Duration interval_;
  const std::function<void()> on_change_;
  std::vector<Stamp> seen_;  // of the constructor, then of the thread
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kvrelay
