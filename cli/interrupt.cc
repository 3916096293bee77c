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
  std::lock_guard lock(mutex_);
  // Not exit(): other threads still run, and whatever was to be seen is flushed already.
  if (!in_scope_ || cancelled_) _exit(kExitInterrupted);
  cancelled_ = true;
  if (call_ != nullptr) call_->TryCancel();
  triggered_.notify_all();
}

Interrupt::Scope::Scope(Interrupt* interrupt) : interrupt_(interrupt) {
  std::lock_guard lock(interrupt_->mutex_);
  KV_CHECK(!interrupt_->in_scope_, "one scope at a time");
  interrupt_->in_scope_ = true;
  interrupt_->cancelled_ = false;
}

Interrupt::Scope::~Scope() {
  std::lock_guard lock(interrupt_->mutex_);
  interrupt_->in_scope_ = false;
  interrupt_->call_ = nullptr;
}

void Interrupt::Scope::SetCall(grpc::ClientContext* call) {
  std::lock_guard lock(interrupt_->mutex_);
  interrupt_->call_ = call;
  if (call != nullptr && interrupt_->cancelled_) call->TryCancel();
}

bool Interrupt::Scope::Pause(absl::Duration duration) const {
  std::unique_lock lock(interrupt_->mutex_);
  return !interrupt_->triggered_.wait_for(lock, absl::ToChronoNanoseconds(duration),
                                          [this] { return interrupt_->cancelled_; });
}

bool Interrupt::Scope::cancelled() const {
  std::lock_guard lock(interrupt_->mutex_);
  return interrupt_->cancelled_;
}

}  // namespace kvrelay::cli
