// A GenerationService on loopback that behaves by the rules of the proto, without a model: the ids of a text are its
// bytes, and the selected tokens are "A", "B", "C", ..., or the bytes of TEXT after the prompt "say:TEXT". Some prompts
// ask for trouble (see Generate in the .cc file), and a stream can be broken at any event. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
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
  // Metadata "authorization" of each call of Generate; "": none.
  std::vector<std::string> authorizations() const;
  void SetStatus(const v1::GetStatusResponse& status);
  // Forced SPLIT is refused from now on, as without a prefill worker.
  void RefuseSplit() { refuse_split_ = true; }
  // In executions without a cache the second token is another one.
  void BreakNoCache() { break_no_cache_ = true; }
  // The second token is another one always.
  void BreakTokens() { break_tokens_ = true; }
  // The next call of Generate that no earlier BreakAfter spoke of ends with `code` after so many events.
  void BreakAfter(size_t events, grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE);
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

  struct Break {
    size_t events = SIZE_MAX;
    grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE;
  };

  Break NextBreak();
  uint32_t TokenId(const v1::GenerateRequest& request, uint32_t index) const;
  std::vector<v1::GenerateResponse> Events(const v1::GenerateRequest& request) const;
  grpc::Status StreamUntilCancelled(uint32_t tokens, grpc::ServerContext* context, Writer* writer);

  mutable absl::Mutex mutex_;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> authorizations_ ABSL_GUARDED_BY(mutex_);
  v1::GetStatusResponse status_ ABSL_GUARDED_BY(mutex_);
  std::deque<Break> breaks_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> refuse_split_ = false;
  std::atomic<bool> break_no_cache_ = false;
  std::atomic<bool> break_tokens_ = false;
  std::atomic<int> cancelled_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace kvrelay::cli
