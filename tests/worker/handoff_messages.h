// The messages of a sound ReceiveKv call for a prompt of the fake engine, for tests to send, or to spoil first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv_wire/handoff_sender.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"
#include "tests/worker/fake_engine.h"
#include "tests/worker/test_client.h"

namespace kvrelay::testing {

struct HandoffParams {
  char id = 'a';
  uint32_t attempt = 1;
  std::string sender = "prefill-1";
  std::string fingerprint = "f1";
  std::string numerics_id = "1-fake-f16-fake";
  kv::KvLayout layout = FakeEngineOptions().layout;
  bool ends_request = false;
};

// Header, frames and commit with the token that the fake engine selects next.
inline std::vector<worker::v1::ReceiveKvRequest> HandoffMessages(const worker::v1::GenerationSpec& spec,
                                                                 const HandoffParams& params = {}) {
  const std::vector<int32_t> tokens(spec.token_ids().begin(), spec.token_ids().end());
  const int count = static_cast<int>(tokens.size());
  auto pool = *kv::BlockPool::Create(params.layout, kv::BlocksFor(count));
  std::shared_ptr<kv::SequenceCache> cache = *kv::SequenceCache::Reserve(pool.get(), count);
  std::vector<worker::v1::ReceiveKvRequest> messages(1);
  {
    kv_wire::HandoffSender sender(cache, 0, count);
    worker::v1::WorkerIdentity identity;
    identity.set_instance(params.sender);
    identity.set_model_fingerprint(params.fingerprint);
    identity.set_numerics_id(params.numerics_id);
    *messages[0].mutable_header() = sender.Header(HandoffId(params.id), params.attempt, identity);
    for (int layer = 0; layer < params.layout.layers; ++layer) {
      WriteFakeKv(*cache, layer, 0, tokens);
      for (const kv_wire::Piece& piece : sender.OnLayer(layer, count)) {
        sender.BuildFrame(piece, messages.emplace_back().mutable_frame());
      }
    }
    worker::v1::KvCommit& commit = *messages.emplace_back().mutable_commit() = sender.Commit();
    worker::v1::Selected& selected = *commit.add_selected();
    selected.set_index(count - spec.prompt_length());
    selected.set_token_id(FakeNextToken(tokens, FakeEngineOptions().vocabulary));
    selected.mutable_positions()->set_computed(count);
    commit.set_ends_request(params.ends_request);
  }
  cache.reset();
  return messages;
}

// A ReceiveKv call, message by message.
class KvClient {
 public:
  explicit KvClient(worker::v1::KvService::Stub& stub) {
    SetTestDeadline(context_);
    writer_ = stub.ReceiveKv(&context_, &response);
  }
  ~KvClient() {
    if (!finished_) {
      context_.TryCancel();
      Finish();
    }
  }
  bool Write(const worker::v1::ReceiveKvRequest& message) { return writer_->Write(message); }
  grpc::Status Finish() {
    finished_ = true;
    writer_->WritesDone();
    return writer_->Finish();
  }
  // Sends all and returns the outcome.
  grpc::Status SendAll(const std::vector<worker::v1::ReceiveKvRequest>& messages) {
    for (const auto& message : messages) {
      if (!Write(message)) break;
    }
    return Finish();
  }
  worker::v1::ReceiveKvResponse response;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientWriter<worker::v1::ReceiveKvRequest>> writer_;
  bool finished_ = false;
};

// Whether the first `tokens.size()` positions of a cache hold the fake KV of those tokens.
inline bool HoldsFakeKv(const kv::SequenceCache& cache, absl::Span<const int32_t> tokens) {
  std::vector<std::byte> bytes(cache.layout().PositionBytes());
  for (int layer = 0; layer < cache.layout().layers; ++layer) {
    for (size_t position = 0; position < tokens.size(); ++position) {
      cache.CopyOut(layer, static_cast<int>(position), 1, absl::MakeSpan(bytes));
      if (bytes != FakeKv(cache.layout(), layer, static_cast<int>(position), tokens[position])) return false;
    }
  }
  return true;
}

}  // namespace kvrelay::testing
