// A GenerationService on loopback that behaves by the rules of the proto, without a model: the ids of a text are its
// bytes, and the selected tokens are "A", "B", "C", ... Some prompts ask for trouble (see Generate in the .cc file).
// Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kvrelay/v1/generation.grpc.pb.h"

namespace kvrelay::cli {

class FakeService final : public v1::GenerationService::Service {
 public:
  FakeService();
  ~FakeService() override;

  std::string address() const;

  std::vector<v1::GenerateRequest> requests() const;
  void SetStatus(const v1::GetStatusResponse& status);
  // Forced SPLIT is refused from now on, as without a prefill worker.
  void RefuseSplit() { refuse_split_ = true; }
  // In executions without a cache the second token is another one.
  void BreakNoCache() { break_no_cache_ = true; }
  // Calls that saw their cancellation by the client.
  int cancelled() const { return cancelled_; }

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  grpc::Status Tokenize(grpc::ServerContext* context, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override;
  grpc::Status Detokenize(grpc::ServerContext* context, const v1::DetokenizeRequest* request,
                          v1::DetokenizeResponse* response) override;
  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                        v1::GetModelResponse* response) override;
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;

 private:
  using Writer = grpc::ServerWriter<v1::GenerateResponse>;

  void Stream(const v1::GenerateRequest& request, const std::vector<uint32_t>& prompt, Writer* writer);
  grpc::Status StreamUntilCancelled(uint32_t tokens, grpc::ServerContext* context, Writer* writer);

  mutable absl::Mutex mutex_;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  v1::GetStatusResponse status_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> refuse_split_ = false;
  std::atomic<bool> break_no_cache_ = false;
  std::atomic<int> cancelled_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace kvrelay::cli
