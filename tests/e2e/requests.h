// Requests and what came back, for end-to-end tests.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>
#include <vector>

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

  void Add(const v1::GenerateResponse& response);
  std::vector<uint32_t> ids() const;
  // The accounting of the worker of that role; all zeros if it did not take part.
  v1::PositionAccounting worker(v1::WorkerRole role) const;
};

v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens);
// A split request with a prompt of about ten tokens a line, with log-probabilities and no end but max_tokens.
v1::GenerateRequest LongPromptRequest(int lines, uint32_t max_tokens);
v1::GenerateRequest ChatRequest(const std::string& message, uint32_t max_tokens);

// Called after each event, with what has come so far.
using AfterEvent = std::function<void(const Stream&)>;

// Runs the request to its end.
Stream Generate(
    v1::GenerationService::Stub& stub, const v1::GenerateRequest& request,
    const AfterEvent& after_event = [](const Stream&) {});

// The same by the client's library, which goes on at the next of `routers` when one goes away. `resumes`, if not null,
// is set to how often it did.
Stream GenerateResuming(const std::vector<std::string>& routers, const v1::GenerateRequest& request,
                        const AfterEvent& after_event, uint32_t* resumes);

// Whether text, tokens with their log-probabilities, and the way it ended are equal byte for byte.
bool SameOutput(const Stream& a, const Stream& b);

// Checks on every stream that ended well: order and number of events, and the equations of PositionAccounting.
void ExpectSound(const Stream& stream);

// Expects equal tokens with bit-equal log-probabilities.
void ExpectSameBits(const Stream& a, const Stream& b);

}  // namespace kvrelay::e2e
