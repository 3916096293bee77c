#include "common/base/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace kvrelay {

FileWatch::FileWatch(std::vector<std::string> paths, absl::Duration interval, std::function<void()> on_change)
    : paths_(std::move(paths)), interval_(interval), on_change_(std::move(on_change)), seen_(LookAtAll()) {
  thread_ = std::thread([this] { Run(); });
}

FileWatch::~FileWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

FileWatch::Stamp FileWatch::Look(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return {};
  return {file.st_dev, file.st_ino, file.st_size, file.st_mtim.tv_sec * int64_t{1'000'000'000} + file.st_mtim.tv_nsec};
}

std::vector<FileWatch::Stamp> FileWatch::LookAtAll() const {
  std::vector<Stamp> stamps;
  for (const std::string& path : paths_) stamps.push_back(Look(path));
  return stamps;
}

void FileWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, absl::ToChronoNanoseconds(interval_), [this] { return stop_; })) {
    lock.unlock();
    std::vector<Stamp> now = LookAtAll();
    if (now != seen_) {
      seen_ = std::move(now);
      on_change_();
    }
    lock.lock();
  }
}

}  // namespace kvrelay
