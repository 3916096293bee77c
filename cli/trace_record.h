// One traced request, and what can be read off it. Values only; no I/O.
#pragma once

#include <string>
#include <vector>

#include "cli/client.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::cli {

struct TraceRecord {
  v1::Execution asked = v1::EXECUTION_UNSPECIFIED;
  CallEnd end;
  v1::Started started;
  std::vector<v1::RunTrace> runs;
  std::vector<v1::Token> tokens;
  v1::Finished finished;             // empty unless end.ok()
  v1::PositionAccounting positions;  // as of the last event

  void Add(const v1::GenerateResponse& response);

  // From the arrival at the router until the last token, in milliseconds.
  double TotalMilliseconds() const;
};

// How the requests of `records` compare. REQUIRES: at least one record.
struct Comparison {
  bool complete = false;   // every request ended well
  bool identical = false;  // all that ended well selected the same tokens, with the same log-probabilities if asked for
  std::string difference;  // where the first difference is, if any
};
Comparison Compare(const std::vector<TraceRecord>& records);

// The article's names: "p0 p1 p2", "x0", "p0..p9 x0..x2" for positions [first, end) after a prompt of `prompt` tokens.
std::string PositionNames(uint32_t first, uint32_t end, uint32_t prompt);

}  // namespace kvrelay::cli
