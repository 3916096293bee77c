// A bounded queue in front of the write side of a gRPC server reactor. gRPC takes one write at a time and exactly one
// Finish; this lets any thread push and any thread end the call.
//
// A reader that does not keep up fills first the HTTP/2 window, then this queue of `limit` messages; the next push
// calls `overflow`, which cancels the call (a status could not reach a reader that does not read). So a slow reader
// costs a bounded amount of memory and delays nobody.
//
// Thread-safe. The reactor must stay alive during every call (its OnDone may come while Finish is being called), must
// forward OnWriteDone, and must never call StartWrite or Finish itself.
#pragma once

#include <grpcpp/support/status.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace kvrelay::rpc {

template <typename Reactor, typename Message>
class StreamWriter {
 public:
  // `overflow` is called at most once, locked and before any Finish: so the call's context is alive. It must not use
  // the writer.
  StreamWriter(Reactor* reactor, size_t limit, std::function<void()> overflow)
      : reactor_(reactor), limit_(limit), overflow_(std::move(overflow)) {}

  // Sends after all earlier ones. Nothing happens once the end was asked for, or after an overflow.
  void Push(Message message) {
    std::lock_guard lock(mutex_);
    if (finish_.has_value() || overflowed_) return;
    if (queue_.size() >= limit_) {
      overflowed_ = true;
      overflow_();
      return;
    }
    queue_.push_back(std::move(message));
    WriteNext();
  }

  // Messages pushed that gRPC has not taken yet.
  size_t waiting() const {
    std::lock_guard lock(mutex_);
    return queue_.size();
  }

  // Sends unless something is on the way already: for signs of life and status, where a late one is worth nothing.
  void PushIfIdle(Message message) {
    std::lock_guard lock(mutex_);
    if (finish_.has_value() || overflowed_ || writing_) return;
    queue_.push_back(std::move(message));
    WriteNext();
  }

  // Ends the call with `status` when all pushed messages are out. Only the first end counts.
  void FinishAfterQueue(grpc::Status status) { End(std::move(status), /*drop_queue=*/false); }
  // Ends the call now; what is queued is dropped.
  void FinishNow(grpc::Status status) { End(std::move(status), /*drop_queue=*/true); }

  // Forward of the reactor's OnWriteDone.
  void OnWriteDone(bool ok) {
    std::unique_lock lock(mutex_);
    writing_ = false;
    if (!ok) queue_.clear();  // the call is broken; its OnCancel will end it
    Advance(lock);
  }

 private:
  void End(grpc::Status status, bool drop_queue) {
    std::unique_lock lock(mutex_);
    if (drop_queue) queue_.clear();
    if (finish_.has_value()) return;
    finish_ = std::move(status);
    Advance(lock);
  }

  // Writes what is next, or ends if the end was asked for and nothing is left.
  void Advance(std::unique_lock<std::mutex>& lock) {
    if (!queue_.empty()) return WriteNext();
    if (writing_ || !finish_.has_value() || finished_) return;
    finished_ = true;
    const grpc::Status status = *finish_;
    // Unlocked: OnDone may run on another thread before Finish returns, and the reactor then owns this object no longer
    // than its other holders do.
    lock.unlock();
    reactor_->Finish(status);
  }

  void WriteNext() {
    if (writing_ || queue_.empty()) return;
    writing_ = true;
    current_ = std::move(queue_.front());
    queue_.pop_front();
    // Locked, so that no Finish can overtake it. gRPC never answers a StartWrite on the calling thread.
    reactor_->StartWrite(&current_);
  }

  Reactor* const reactor_;
  const size_t limit_;
  const std::function<void()> overflow_;
  mutable std::mutex mutex_;
  std::deque<Message> queue_;
  Message current_;  // being written; gRPC reads it until OnWriteDone
  bool writing_ = false;
  bool overflowed_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> finish_;
};

}  // namespace kvrelay::rpc
