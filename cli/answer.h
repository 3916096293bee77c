// Streams one generation to the console.
#pragma once

#include <string>

#include "cli/client.h"
#include "cli/console.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::cli {

enum class AnswerFormat {
  kText,    // the text as it comes
  kTokens,  // a line for each token, with log-probabilities
  kJson,    // a JSON line for each event
};

struct Answer {
  CallEnd end;
  std::string text;  // all text received
  v1::Started started;
  v1::Finished finished;  // empty unless end.ok()
};

// Runs `request` and writes its events to `console.out`, flushed after each. After text a newline is added when the
// text does not end in one.
Answer StreamAnswer(const v1::GenerateRequest& request, AnswerFormat format, Client* client, const Console& console);

}  // namespace kvrelay::cli
