// The router's side of the worker calls, blocking, for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrelay/worker/v1/decode.grpc.pb.h"
#include "kvrelay/worker/v1/prefill.grpc.pb.h"

namespace kvrelay::testing {

// A prompt of `length` tokens, all 10 or more and below 300.
inline worker::v1::GenerationSpec MakeSpec(int length, uint32_t max_tokens, int salt = 0) {
  worker::v1::GenerationSpec spec;
  for (int i = 0; i < length; ++i) spec.add_token_ids(10 + (i * 7 + salt) % 290);
  spec.set_prompt_length(length);
  spec.set_top_p(1);
  spec.set_max_tokens(max_tokens);
  return spec;
}

inline std::string HandoffId(char c) { return std::string(16, c); }

// No test waits longer than this for anything.
inline void SetTestDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(300));
}

class DecodeClient {
 public:
  explicit DecodeClient(worker::v1::DecodeService::Stub& stub) {
    SetTestDeadline(context_);
    stream_ = stub.Decode(&context_);
  }
  ~DecodeClient() {
    if (!finished_) {
      context_.TryCancel();
      Finish();
    }
  }

  bool Reserve(char id, const worker::v1::GenerationSpec& spec, worker::v1::Source source,
               const std::string& sender = "prefill-1") {
    worker::v1::DecodeRequest request;
    worker::v1::Reserve& reserve = *request.mutable_reserve();
    reserve.set_handoff_id(HandoffId(id));
    *reserve.mutable_spec() = spec;
    reserve.set_source(source);
    if (source == worker::v1::SOURCE_RECEIVED || source == worker::v1::SOURCE_MOVED)
      reserve.set_sender_instance(sender);
    return stream_->Write(request);
  }
  bool Attempt(uint32_t attempt, const std::string& sender) {
    worker::v1::DecodeRequest request;
    request.mutable_attempt()->set_attempt(attempt);
    request.mutable_attempt()->set_sender_instance(sender);
    return stream_->Write(request);
  }
  bool SendFinish() {
    worker::v1::DecodeRequest request;
    request.mutable_finish();
    return stream_->Write(request);
  }
  bool SendHold() {
    worker::v1::DecodeRequest request;
    request.mutable_hold();
    return stream_->Write(request);
  }
  bool SendResume() {
    worker::v1::DecodeRequest request;
    request.mutable_resume();
    return stream_->Write(request);
  }
  bool Write(const worker::v1::DecodeRequest& request) { return stream_->Write(request); }
  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

  // The next event that is no heartbeat; none at the end of the stream.
  std::optional<worker::v1::DecodeResponse> Next() {
    worker::v1::DecodeResponse response;
    while (stream_->Read(&response)) {
      if (!response.has_heartbeat()) return response;
      ++heartbeats;
    }
    return std::nullopt;
  }
  // Blocks for one heartbeat.
  bool WaitForHeartbeat() {
    worker::v1::DecodeResponse response;
    return stream_->Read(&response) && response.has_heartbeat();
  }
  // All events until only signs of life come: many more than the engine gives for a token.
  std::vector<worker::v1::DecodeResponse> UntilStill() {
    std::vector<worker::v1::DecodeResponse> events;
    worker::v1::DecodeResponse response;
    for (int beats = 0; beats < 25 && stream_->Read(&response); ++beats) {
      if (response.has_heartbeat()) continue;
      beats = 0;
      events.push_back(response);
    }
    return events;
  }
  // All events to the end.
  std::vector<worker::v1::DecodeResponse> Rest() {
    std::vector<worker::v1::DecodeResponse> events;
    while (auto event = Next()) events.push_back(*event);
    return events;
  }
  grpc::Status Finish() {
    Rest();
    finished_ = true;
    return stream_->Finish();
  }

  int heartbeats = 0;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<worker::v1::DecodeRequest, worker::v1::DecodeResponse>> stream_;
  bool finished_ = false;
};

class PrefillClient {
 public:
  PrefillClient(worker::v1::PrefillService::Stub& stub, const worker::v1::PrefillRequest& request) {
    SetTestDeadline(context_);
    stream_ = stub.Prefill(&context_, request);
  }
  ~PrefillClient() {
    if (!finished_) {
      context_.TryCancel();
      Finish();
    }
  }

  // The next event that is no progress; none at the end of the stream.
  std::optional<worker::v1::PrefillResponse> Next() {
    worker::v1::PrefillResponse response;
    while (stream_->Read(&response)) {
      if (!response.has_progress()) return response;
      progress.push_back(response.progress());
    }
    return std::nullopt;
  }
  // Blocks for one progress report that fulfils `wanted`.
  template <typename Wanted>
  bool WaitForProgress(Wanted wanted) {
    worker::v1::PrefillResponse response;
    while (stream_->Read(&response)) {
      if (response.has_progress() && wanted(response.progress())) return true;
    }
    return false;
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() {
    while (Next()) {
    }
    finished_ = true;
    return stream_->Finish();
  }

  std::vector<worker::v1::PrefillProgress> progress;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<worker::v1::PrefillResponse>> stream_;
  bool finished_ = false;
};

inline worker::v1::PrefillRequest MakePrefill(const worker::v1::GenerationSpec& spec, char id, uint32_t attempt,
                                              const std::string& kv_address) {
  worker::v1::PrefillRequest request;
  *request.mutable_spec() = spec;
  worker::v1::Handoff& handoff = *request.mutable_handoff();
  handoff.set_handoff_id(HandoffId(id));
  handoff.set_attempt(attempt);
  handoff.set_kv_address(kv_address);
  handoff.set_decode_instance("decode-1");
  return request;
}

}  // namespace kvrelay::testing
