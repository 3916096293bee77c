#include "prefill_worker/prefill_service.h"

#include <grpcpp/support/server_callback.h>

#include "kvrelay/worker/v1/prefill.grpc.pb.h"
#include "prefill_worker/kv_channels.h"
#include "prefill_worker/prefill_call.h"
#include "prefill_worker/task_thread.h"

namespace kvrelay::prefill_worker {
namespace {

using worker::v1::PrefillRequest;
using worker::v1::PrefillResponse;

class PrefillServiceImpl final : public worker::v1::PrefillService::CallbackService {
 public:
  explicit PrefillServiceImpl(const worker::WorkerContext* context)
      : context_(context),
        channels_(context->tls == nullptr ? nullptr : context->tls->ChannelTo(rpc::PeerRole::kDecode)),
        senders_{.channels = &channels_, .tasks = &tasks_, .clock = context->clock, .identity = &context->identity} {}

  grpc::ServerWriteReactor<PrefillResponse>* Prefill(grpc::CallbackServerContext* call_context,
                                                     const PrefillRequest* request) override {
    return PrefillCall::Start(call_context, context_, senders_, *request);
  }

 private:
  const worker::WorkerContext* const context_;
  KvChannels channels_;
  TaskThread tasks_;
  const KvSender::Shared senders_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPrefillService(const worker::WorkerContext* context) {
  return std::make_unique<PrefillServiceImpl>(context);
}

}  // namespace kvrelay::prefill_worker
