#include "prefill_worker/prefill_call.h"

#include <grpcpp/server_context.h>

#include <memory>

#include "common/worker/grpc_kv_link.h"
#include "common/worker/stream_sink.h"
#include "prefill_worker/prefill_flow.h"

namespace kvrelay::prefill_worker {
namespace {

// A job has a handful of events; signs of life never wait.
constexpr size_t kMaxWaitingEvents = 16;

// Call and flow hold each other until OnDone; whoever then still holds the flow finds a sink that does nothing.
class PrefillCall final : public grpc::ServerWriteReactor<PrefillResponse> {
 public:
  static PrefillCall* Start(grpc::CallbackServerContext* call_context, const worker::WorkerContext* context,
                            worker::KvChannels* channels, const PrefillRequest& request) {
    auto call = std::make_shared<PrefillCall>(call_context);
    call->self_ = call;
    call->flow_ = std::make_shared<PrefillFlow>(context, std::shared_ptr<PrefillSink>(call, &call->sink_));
    worker::GrpcKvTransport transport(channels, call_context);
    call->flow_->Start(request, &transport);
    return call.get();
  }

  explicit PrefillCall(grpc::CallbackServerContext* call_context)
      : sink_(this, kMaxWaitingEvents, [call_context] { call_context->TryCancel(); }) {}

  void OnWriteDone(bool ok) override { sink_.OnWriteDone(ok); }
  void OnCancel() override { flow_->OnCancel(); }
  void OnDone() override {
    const std::shared_ptr<PrefillCall> last = std::move(self_);
    flow_->OnDone();
    flow_.reset();
  }

 private:
  worker::StreamSink<grpc::ServerWriteReactor<PrefillResponse>, PrefillResponse> sink_;
  std::shared_ptr<PrefillFlow> flow_;
  std::shared_ptr<PrefillCall> self_;  // until OnDone
};

}  // namespace

grpc::ServerWriteReactor<PrefillResponse>* StartPrefillCall(grpc::CallbackServerContext* call_context,
                                                            const worker::WorkerContext* context,
                                                            worker::KvChannels* channels,
                                                            const PrefillRequest& request) {
  return PrefillCall::Start(call_context, context, channels, request);
}

}  // namespace kvrelay::prefill_worker
