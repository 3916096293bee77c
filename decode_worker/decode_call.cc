#include "decode_worker/decode_call.h"

#include <grpcpp/server_context.h>

#include <memory>

#include "common/observability/log.h"
#include "common/worker/grpc_kv_link.h"
#include "common/worker/stream_sink.h"
#include "decode_worker/decode_flow.h"

namespace kvrelay::decode_worker {
namespace {

using Reactor = grpc::ServerBidiReactor<DecodeRequest, DecodeResponse>;

// Events that may wait for a slow reader. Beyond them the call is cancelled.
constexpr size_t kMaxWaitingEvents = 1024;

// Call and flow hold each other until OnDone; whoever then still holds the flow finds a sink that does nothing.
class DecodeCall final : public Reactor {
 public:
  static DecodeCall* Start(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
                           ReservationTable* reservations, worker::KvChannels* channels) {
    auto call = std::make_shared<DecodeCall>(call_context, channels);
    call->self_ = call;
    call->flow_ = std::make_shared<DecodeFlow>(context, reservations, std::shared_ptr<DecodeSink>(call, &call->sink_));
    call->StartRead(&call->request_);
    return call.get();
  }

  DecodeCall(grpc::CallbackServerContext* call_context, worker::KvChannels* channels)
      : sink_(this, kMaxWaitingEvents,
              [call_context] {
                observability::LogWarning("decode_reader_too_slow", {{"events_waiting", kMaxWaitingEvents}});
                call_context->TryCancel();
              }),
        transport_(channels, call_context) {}

  void OnReadDone(bool ok) override {
    if (!ok) return flow_->OnRequestsEnd();
    if (flow_->OnRequest(request_, &transport_)) StartRead(&request_);
  }
  void OnWriteDone(bool ok) override { sink_.OnWriteDone(ok); }
  void OnCancel() override { flow_->OnCancel(); }
  void OnDone() override {
    const std::shared_ptr<DecodeCall> last = std::move(self_);
    flow_->OnDone();
    flow_.reset();
  }

 private:
  worker::StreamSink<Reactor, DecodeResponse> sink_;
  worker::GrpcKvTransport transport_;
  DecodeRequest request_;  // of the reads, one at a time
  std::shared_ptr<DecodeFlow> flow_;
  std::shared_ptr<DecodeCall> self_;  // until OnDone
};

}  // namespace

Reactor* StartDecodeCall(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
                         ReservationTable* reservations, worker::KvChannels* channels) {
  return DecodeCall::Start(call_context, context, reservations, channels);
}

}  // namespace kvrelay::decode_worker
