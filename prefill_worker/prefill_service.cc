#include "prefill_worker/prefill_service.h"

#include <grpcpp/support/server_callback.h>

#include "kvrelay/worker/v1/prefill.grpc.pb.h"
#include "prefill_worker/prefill_call.h"

namespace kvrelay::prefill_worker {
namespace {

class PrefillServiceImpl final : public worker::v1::PrefillService::CallbackService {
 public:
  explicit PrefillServiceImpl(const worker::WorkerContext* context) : context_(context), channels_(context->tls) {}

  grpc::ServerWriteReactor<worker::v1::PrefillResponse>* Prefill(grpc::CallbackServerContext* call_context,
                                                                 const worker::v1::PrefillRequest* request) override {
    return StartPrefillCall(call_context, context_, &channels_, *request);
  }

 private:
  const worker::WorkerContext* const context_;
  worker::KvChannels channels_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPrefillService(const worker::WorkerContext* context) {
  return std::make_unique<PrefillServiceImpl>(context);
}

}  // namespace kvrelay::prefill_worker
