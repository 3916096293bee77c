#include "decode_worker/decode_service.h"

#include <grpcpp/support/server_callback.h>

#include "decode_worker/decode_call.h"
#include "kvrelay/worker/v1/decode.grpc.pb.h"

namespace kvrelay::decode_worker {
namespace {

using worker::v1::DecodeRequest;
using worker::v1::DecodeResponse;

class DecodeServiceImpl final : public worker::v1::DecodeService::CallbackService {
 public:
  DecodeServiceImpl(const worker::WorkerContext* context, ReservationTable* reservations)
      : context_(context), reservations_(reservations), channels_(context->tls) {}

  grpc::ServerBidiReactor<DecodeRequest, DecodeResponse>* Decode(grpc::CallbackServerContext* context) override {
    return StartDecodeCall(context, context_, reservations_, &channels_);
  }

 private:
  const worker::WorkerContext* const context_;
  ReservationTable* const reservations_;
  worker::KvChannels channels_;  // to the targets of moves
};

}  // namespace

std::unique_ptr<grpc::Service> NewDecodeService(const worker::WorkerContext* context, ReservationTable* reservations) {
  return std::make_unique<DecodeServiceImpl>(context, reservations);
}

}  // namespace kvrelay::decode_worker
