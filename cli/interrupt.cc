#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

#include "cli/exit_code.h"
#include "common/base/check.h"

namespace kvrelay::cli {

void Interrupt::Watch() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  KV_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0, "blocking SIGINT cannot fail");
  signal(SIGINT, SIG_DFL);  // a script's background jobs start with it ignored
  std::thread([this, signals] {
    int received = 0;
    while (sigwait(&signals, &received) == 0) Trigger();
  }).detach();
}

void Interrupt::Trigger() {
  absl::MutexLock lock(&mutex_);
  // Not exit(): other threads still run, and whatever was to be seen is flushed already.
  if (call_ == nullptr || cancelled_) _exit(kExitInterrupted);
  cancelled_ = true;
  call_->TryCancel();
}

Interrupt::Scope::Scope(Interrupt* interrupt, grpc::ClientContext* call) : interrupt_(interrupt) {
  absl::MutexLock lock(&interrupt_->mutex_);
  KV_CHECK(interrupt_->call_ == nullptr, "one call at a time");
  interrupt_->call_ = call;
  interrupt_->cancelled_ = false;
}

Interrupt::Scope::~Scope() {
  absl::MutexLock lock(&interrupt_->mutex_);
  interrupt_->call_ = nullptr;
}

bool Interrupt::Scope::cancelled() const {
  absl::MutexLock lock(&interrupt_->mutex_);
  return interrupt_->cancelled_;
}

}  // namespace kvrelay::cli
