// From events of kvrelay.v1 to what OpenAI's clients read: one JSON object, or server-sent events.
//
// Used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvrelay/v1/generation.pb.h"
#include "router/http/completion_request.h"

namespace kvrelay::http {

// What all objects of one answer say of it.
struct AnswerLabel {
  std::string id;       // without "cmpl-" or "chatcmpl-"
  int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;  // of the model file
};

// One choice of an answer so far.
struct Choice {
  std::string text;
  std::vector<v1::Token> tokens;  // for their log-probabilities; only if these are wanted
  size_t characters = 0;          // of tokens that were sent before
  v1::Usage usage;
  std::string finish_reason;  // empty: not finished
};

class CompletionResponse {
 public:
  // `prompt_texts`: of each prompt, if the request wants an echo. The request must outlive this.
  CompletionResponse(const CompletionRequest& request, AnswerLabel label, std::vector<std::string> prompt_texts);

  // Takes an event of a choice in.
  void Add(size_t choice, const v1::GenerateResponse& event);

  // Streaming: what goes before all tokens; what has come in of a choice since the last call (may be empty); what goes
  // after all tokens. Server-sent events.
  std::string Begin();
  std::string Next(size_t choice);
  std::string End() const;

  // Not streaming: the whole answer, when all choices have finished.
  std::string Whole() const;

 private:
  const CompletionRequest& request_;
  const AnswerLabel label_;
  const std::vector<std::string> prompt_texts_;
  std::vector<Choice> choices_;
};

// An error in the middle of a stream, as a server-sent event. The stream ends with it, without the end mark.
std::string ErrorEvent(const ApiError& error);

}  // namespace kvrelay::http
