// One ReceiveKv call as its sender sees it, without gRPC: messages go out one at a time, and one answer comes back.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kvrelay/worker/v1/kv.pb.h"

namespace kvrelay::kv_wire {

// Told about a link, on any thread.
class KvLinkListener {
 public:
  virtual ~KvLinkListener() = default;
  // The last Write is out; false: the call is over, OnLinkEnded follows and no Write is of use any more.
  virtual void OnWritten(bool ok) = 0;
  // Last call, exactly once and after the last OnWritten. `receipt` has a meaning only with OK.
  virtual void OnLinkEnded(const absl::Status& status, const worker::v1::ReceiveKvResponse& receipt) = 0;
};

// Thread-safe.
class KvLink {
 public:
  virtual ~KvLink() = default;
  // REQUIRES: the Write before was answered by OnWritten(true). `message` stays as it is until then. `last`: no Write
  // follows.
  virtual void Write(const worker::v1::ReceiveKvRequest& message, bool last) = 0;
  // Ends the call; OnLinkEnded still comes. Idempotent.
  virtual void Cancel() = 0;
};

// Opens links. Calls opened end, at the latest, with the call on whose behalf the transport was made.
class KvTransport {
 public:
  virtual ~KvTransport() = default;
  // `listener` is kept until its OnLinkEnded, which comes also if there is nobody at `address` (host:port). No call of
  // the listener is made from inside.
  virtual std::shared_ptr<KvLink> Open(const std::string& address, std::shared_ptr<KvLinkListener> listener) = 0;
};

}  // namespace kvrelay::kv_wire
