// Where a call of a worker sends its events: the stream to its owner, without gRPC.
#pragma once

#include "absl/status/status.h"

namespace kvrelay::worker {

// Thread-safe. Nothing is sent after either end, and only the first end counts. Must not call back from inside.
template <typename Event>
class EventSink {
 public:
  virtual ~EventSink() = default;
  // Sends after all earlier ones. A reader that does not keep up ends the call.
  virtual void Send(Event event) = 0;
  // Sends unless something is on the way already: for signs of life, where a late one is worth nothing.
  virtual void SendIfIdle(Event event) = 0;
  // Ends the call well, when all events are out.
  virtual void End() = 0;
  // Ends the call now; what is not out is dropped.
  virtual void Fail(const absl::Status& status) = 0;
};

}  // namespace kvrelay::worker
