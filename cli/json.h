// All JSON of the client (its library takes a compiler several seconds). Responses as JSON: protobuf's JSON mapping on
// one line, field names as in the .proto file, fields at their default included (unset messages and unset `optional`
// fields are left out), floats that read back to the same bits, 64-bit integers and durations as strings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/trace_record.h"
#include "google/protobuf/message.h"

namespace kvrelay::cli {

// One line of the client's own: the stream went on at `address` for the `resumes`th time, after `tokens` tokens.
std::string ResumedLine(uint32_t resumes, const std::string& address, uint64_t tokens);

// The outcome of trace --compare in one line.
std::string ComparisonLine(const std::vector<TraceRecord>& records);

// One line with its newline. A message that has no JSON form (a peer may send a duration out of range) becomes
// {"invalid_message": "why"}.
std::string ToJsonLine(const google::protobuf::Message& message);

// The routers that the endpoints.json of ./dev up names, "grpc" first. INVALID_ARGUMENT, naming `path`, if `text` is
// something else.
absl::StatusOr<std::vector<std::string>> RoutersOfEndpoints(const std::string& text, const std::string& path);

}  // namespace kvrelay::cli
