#include "common/worker/worker_service.h"

#include <grpcpp/support/server_callback.h>

#include "common/rpc/status_mapping.h"
#include "common/rpc/stream_writer.h"
#include "common/worker/status_report.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"

namespace kvrelay::worker {
namespace {

using v1::WatchStatusRequest;
using v1::WatchStatusResponse;

class WatchCall final : public grpc::ServerWriteReactor<WatchStatusResponse>, public TickListener {
 public:
  static WatchCall* Start(const WorkerContext* context) {
    auto call = std::make_shared<WatchCall>(context);
    call->self_ = call;
    if (const absl::Status open = context->calls->CheckOpen(); !open.ok()) {
      call->writer_.FinishNow(rpc::ToGrpc(open));
      return call.get();
    }
    context->ticker->Add(call);
    call->OnTick();
    return call.get();
  }

  explicit WatchCall(const WorkerContext* context) : context_(*context), writer_(this, /*limit=*/1, [] {}) {}

  // A slow reader gets fewer reports, never old ones.
  void OnTick() override { writer_.PushIfIdle(StatusOf(context_)); }
  void OnWriteDone(bool ok) override { writer_.OnWriteDone(ok); }
  void OnCancel() override { writer_.FinishNow(grpc::Status::CANCELLED); }
  void OnDone() override { self_.reset(); }

 private:
  const WorkerContext& context_;
  std::shared_ptr<WatchCall> self_;  // until OnDone
  rpc::StreamWriter<grpc::ServerWriteReactor<WatchStatusResponse>, WatchStatusResponse> writer_;
};

class WorkerServiceImpl final : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerServiceImpl(const WorkerContext* context) : context_(context) {}

  grpc::ServerWriteReactor<WatchStatusResponse>* WatchStatus(grpc::CallbackServerContext*,
                                                             const WatchStatusRequest*) override {
    return WatchCall::Start(context_);
  }

 private:
  const WorkerContext* const context_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewWorkerService(const WorkerContext* context) {
  return std::make_unique<WorkerServiceImpl>(context);
}

}  // namespace kvrelay::worker
