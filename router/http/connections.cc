#include "router/http/connections.h"

#include <sys/socket.h>

namespace kvrelay::http {

void Connections::OnAccepted() {
  std::lock_guard lock(mutex_);
  ++waiting_;
  MakeRoom();
}

uint64_t Connections::Add(int fd) {
  std::lock_guard lock(mutex_);
  --waiting_;
  Entry& entry = open_[++last_];
  entry = {.fd = fd, .since = ++changes_};
  if (stopped_) Close(entry);
  return last_;
}

void Connections::Remove(uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(number);
  Leave(found->second);
  open_.erase(found);
}

bool Connections::SetBusy(uint64_t number) {
  std::lock_guard lock(mutex_);
  if (busy_ >= busy_max_) return false;
  ++busy_;
  open_.at(number).busy = true;
  return true;
}

void Connections::SetIdle(uint64_t number) {
  std::lock_guard lock(mutex_);
  Entry& entry = open_.at(number);
  Leave(entry);
  entry.since = ++changes_;
  if (stopped_) Close(entry);
  MakeRoom();  // there may have been none to close before
}

void Connections::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [number, entry] : open_) {
    if (!entry.busy) Close(entry);
  }
}

void Connections::WaitUntilNoneIsBusy(absl::Duration patience) {
  std::unique_lock lock(mutex_);
  none_busy_.wait_for(lock, absl::ToChronoMilliseconds(patience), [this] { return busy_ == 0; });
}

void Connections::Leave(Entry& entry) {
  if (entry.busy && --busy_ == 0) none_busy_.notify_all();
  entry.busy = false;
}

void Connections::MakeRoom() {
  size_t staying = 0;
  for (const auto& [number, entry] : open_) staying += entry.closing ? 0 : 1;
  while (staying + waiting_ > threads_) {
    Entry* longest = nullptr;
    for (auto& [number, entry] : open_) {
      if (!entry.busy && !entry.closing && (longest == nullptr || entry.since < longest->since)) longest = &entry;
    }
    if (longest == nullptr) return;
    Close(*longest);
    --staying;
  }
}

// The thread that reads or writes it wakes up and finds its end.
void Connections::Close(Entry& entry) {
  entry.closing = true;
  shutdown(entry.fd, SHUT_RDWR);
}

}  // namespace kvrelay::http
