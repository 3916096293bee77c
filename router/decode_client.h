// A decode worker seen from the router: one call owns one reservation.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "kvrelay/worker/v1/decode.pb.h"
#include "router/worker.h"

namespace kvrelay::router {

// Told what the worker says, one call at a time, in order. Must not block. Calls may come from any thread, also from
// inside DecodeClient::Open.
class DecodeListener {
 public:
  virtual ~DecodeListener() = default;
  virtual void OnResponse(wire::DecodeResponse response) = 0;
  // Last call, exactly once.
  virtual void OnEnd(absl::Status status) = 0;
};

// Handle of an open call. Destroying it cancels the call if it is still open; the listener may be told a few more
// things until OnEnd. Thread-safe.
class DecodeCall {
 public:
  virtual ~DecodeCall() = default;
  // Queues a command; commands arrive in order. Does nothing after the end.
  virtual void Send(wire::DecodeRequest request) = 0;
};

// Thread-safe.
class DecodeClient {
 public:
  virtual ~DecodeClient() = default;
  // Starts a call without waiting; what goes wrong comes as OnEnd. The call keeps the listener alive until then.
  virtual std::unique_ptr<DecodeCall> Open(const Worker& worker, std::shared_ptr<DecodeListener> listener) = 0;
};

}  // namespace kvrelay::router
