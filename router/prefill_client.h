// A prefill worker seen from the router: one call owns one job.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "kvrelay/worker/v1/prefill.pb.h"
#include "router/worker.h"

namespace kvrelay::router {

// As DecodeListener.
class PrefillListener {
 public:
  virtual ~PrefillListener() = default;
  virtual void OnResponse(wire::PrefillResponse response) = 0;
  // Last call, exactly once.
  virtual void OnEnd(absl::Status status) = 0;
};

// Handle of an open call. Destroying it cancels the call if it is still open; the listener may be told a few more
// things until OnEnd. Thread-safe.
class PrefillCall {
 public:
  virtual ~PrefillCall() = default;
};

// Thread-safe.
class PrefillClient {
 public:
  virtual ~PrefillClient() = default;
  // Starts a job without waiting; what goes wrong comes as OnEnd. The call keeps the listener alive until then.
  virtual std::unique_ptr<PrefillCall> Open(const Worker& worker, const wire::PrefillRequest& request,
                                            std::shared_ptr<PrefillListener> listener) = 0;
};

}  // namespace kvrelay::router
