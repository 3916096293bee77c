#include "router/http/generations.h"

#include <utility>

#include "common/rpc/status_mapping.h"

namespace kvrelay::http {
namespace {

// Tags are numbers of calls from 1.
void* Tag(size_t index) { return reinterpret_cast<void*>(index + 1); }
size_t Index(void* tag) { return reinterpret_cast<size_t>(tag) - 1; }

}  // namespace

Generations::Generations(v1::GenerationService::Stub& stub, const Metadata& metadata,
                         const std::vector<v1::GenerateRequest>& requests) {
  for (const v1::GenerateRequest& request : requests) {
    Call& call = calls_.emplace_back();
    for (const auto& [name, value] : metadata) call.context.AddMetadata(name, value);
    call.reader = stub.PrepareAsyncGenerate(&call.context, request, &queue_);
    call.reader->StartCall(Tag(running_++));
  }
}

Generations::~Generations() {
  for (Call& call : calls_) call.context.TryCancel();
  // Cancelled calls end soon, and their tags must come before the queue ends.
  while (!all_ended()) Next(absl::Seconds(1));
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

std::optional<Generations::Event> Generations::Next(absl::Duration patience) {
  const gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(absl::ToInt64Nanoseconds(patience), GPR_TIMESPAN));
  void* tag = nullptr;
  bool ok = false;
  while (queue_.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT) {
    if (auto event = On(Index(tag), ok)) return event;
  }
  return std::nullopt;
}

std::optional<Generations::Event> Generations::On(size_t index, bool ok) {
  Call& call = calls_[index];
  if (call.state == State::kFinishing) {
    --running_;
    return Event{.index = index, .ended = true, .status = rpc::FromGrpc(call.status)};
  }
  const bool has_response = ok && call.state == State::kReading;
  Event event{.index = index, .event = std::move(call.response)};
  if (ok) {
    call.state = State::kReading;
    call.response.Clear();
    call.reader->Read(&call.response, Tag(index));
  } else {
    call.state = State::kFinishing;
    call.reader->Finish(&call.status, Tag(index));
  }
  if (!has_response) return std::nullopt;
  return event;
}

}  // namespace kvrelay::http
