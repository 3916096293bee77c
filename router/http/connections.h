// The open connections of an HTTP server that gives each one a thread, and who must go when threads run short.
//
// A connection is busy from the time its POST request has been read in full until the answer is out; `busy_max` may be
// so at a time. All others (idle between requests, sending a request, getting an answer to GET) may be closed at any
// time: when a new connection finds no thread, the one that has been in that state for longest is. There are more
// threads than busy connections, so whoever comes gets one at once.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

#include "absl/time/time.h"

namespace kvrelay::http {

class Connections {
 public:
  Connections(size_t threads, size_t busy_max) : threads_(threads), busy_max_(busy_max) {}

  // A connection was accepted and waits for a thread.
  void OnAccepted();
  // It has its thread. The number is its name here. It must be closed only after Remove.
  uint64_t Add(int fd);
  void Remove(uint64_t number);

  // False if too many are.
  bool SetBusy(uint64_t number);
  void SetIdle(uint64_t number);

  // Closes all that are not busy, now and from now on.
  void Stop();
  // Returns when none is busy, or after `patience`.
  void WaitUntilNoneIsBusy(absl::Duration patience);

 private:
  struct Entry {
    int fd;
    bool busy = false;
    bool closing = false;  // was told to go
    uint64_t since = 0;    // since when it is not busy, as a count of changes
  };

  void Leave(Entry& entry);
  void MakeRoom();
  static void Close(Entry& entry);

  const size_t threads_, busy_max_;
  std::mutex mutex_;
  std::condition_variable none_busy_;
  std::map<uint64_t, Entry> open_;
  uint64_t last_ = 0, changes_ = 0;
  size_t waiting_ = 0, busy_ = 0;
  bool stopped_ = false;
};

}  // namespace kvrelay::http
