// Ctrl-C. The first one cancels the running call; one with no running call, or a second one during the same call, ends
// the process with code 130.
//
// SIGINT is blocked in every thread and taken by one thread in sigwait, so that nothing here runs inside a signal
// handler. Thread-safe.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"

namespace kvrelay::cli {

class Interrupt {
 public:
  // Starts to watch for SIGINT. REQUIRES: called once, before any other thread exists; this object then lives as long
  // as the process.
  void Watch();

  // Acts as at one Ctrl-C.
  void Trigger();

  // A call that Ctrl-C cancels while this object lives. One at a time.
  class Scope {
   public:
    Scope(Interrupt* interrupt, grpc::ClientContext* call);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // Whether Ctrl-C cancelled this call.
    bool cancelled() const;

   private:
    Interrupt* interrupt_;
  };

 private:
  mutable absl::Mutex mutex_;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace kvrelay::cli
