// An EventSink that writes to a gRPC server reactor. What a worker refuses for lack of room is worth another try soon,
// so such a status carries a retry delay.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/rpc/status_mapping.h"
#include "common/rpc/stream_writer.h"
#include "common/worker/event_sink.h"

namespace kvrelay::worker {

inline constexpr absl::Duration kRetryAfter = absl::Seconds(1);

// See StreamWriter for what the reactor must do.
template <typename Reactor, typename Event>
class StreamSink : public EventSink<Event> {
 public:
  StreamSink(Reactor* reactor, size_t limit, std::function<void()> overflow)
      : writer_(reactor, limit, std::move(overflow)) {}

  void Send(Event event) override { writer_.Push(std::move(event)); }
  void SendIfIdle(Event event) override { writer_.PushIfIdle(std::move(event)); }
  void End() override { writer_.FinishAfterQueue(grpc::Status::OK); }
  void Fail(const absl::Status& status) override {
    writer_.FinishNow(
        rpc::ToGrpc(absl::IsResourceExhausted(status) ? rpc::WithRetryDelay(status, kRetryAfter) : status));
  }

  void OnWriteDone(bool ok) { writer_.OnWriteDone(ok); }

 private:
  rpc::StreamWriter<Reactor, Event> writer_;
};

}  // namespace kvrelay::worker
