// Requests and what came back, for end-to-end tests.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kvrelay/v1/generation.grpc.pb.h"

namespace kvrelay::e2e {

// A whole stream.
struct Stream {
  grpc::Status status;
  v1::Started started;
  std::vector<v1::Token> tokens;
  std::vector<v1::RunTrace> runs;
  std::vector<v1::PositionAccounting> positions;  // one for each event
  v1::Finished finished;
  std::string text;

  std::vector<uint32_t> ids() const;
  // The accounting of the worker of that role; all zeros if it did not take part.
  v1::PositionAccounting worker(v1::WorkerRole role) const;
};

v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens);
v1::GenerateRequest ChatRequest(const std::string& message, uint32_t max_tokens);

// Called after each event, with what has come so far.
using AfterEvent = std::function<void(const Stream&)>;

// Runs the request to its end.
Stream Generate(
    v1::GenerationService::Stub& stub, const v1::GenerateRequest& request,
    const AfterEvent& after_event = [](const Stream&) {});

// The same through any of the routers: when one goes away, the stream resumes at the next with what has arrived.
// Refusals for want of room are repeated. Gives up after `patience`. If all max_tokens tokens arrived and only the end
// is missing, the status is OK and `finished` is empty.
Stream GenerateResuming(absl::Span<v1::GenerationService::Stub* const> routers, const v1::GenerateRequest& request,
                        absl::Duration patience, const AfterEvent& after_event, int* resumed);

// Checks on every stream that ended well: order and number of events, and the equations of PositionAccounting.
void ExpectSound(const Stream& stream);

// Expects equal tokens with bit-equal log-probabilities.
void ExpectSameBits(const Stream& a, const Stream& b);

}  // namespace kvrelay::e2e
