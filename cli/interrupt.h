// Ctrl-C. The first one cancels the work in progress; one with no work in progress, or a second one, ends the process
// with code 130.
//
// SIGINT is blocked in every thread and taken by one thread in sigwait, so that nothing here runs inside a signal
// handler. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"
#include "grpcpp/client_context.h"

namespace kvrelay::cli {

class Interrupt {
 public:
  // Starts to watch for SIGINT. REQUIRES: called once, before any other thread exists; this object then lives as long
  // as the process.
  void Watch();

  // Acts as at one Ctrl-C.
  void Trigger();

  // Work that Ctrl-C cancels while this object lives: calls one after another, and pauses between them. One at a time.
  class Scope {
   public:
    explicit Scope(Interrupt* interrupt);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // The call that is cancelled, at once if Ctrl-C came already; null: none now. Must stay until the next SetCall.
    void SetCall(grpc::ClientContext* call);
    // Waits. False, at once, when Ctrl-C comes or has come.
    bool Pause(absl::Duration duration) const;
    // Whether Ctrl-C came.
    bool cancelled() const;

   private:
    Interrupt* const interrupt_;
  };

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable triggered_;
  bool in_scope_ = false;
  bool cancelled_ = false;
  grpc::ClientContext* call_ = nullptr;
};

}  // namespace kvrelay::cli
