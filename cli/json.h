// Responses as JSON: protobuf's JSON mapping on one line, field names as in the .proto file, fields at their default
// included (unset messages and unset `optional` fields are left out), floats that read back to the same bits, 64-bit
// integers and durations as strings.
#pragma once

#include <cstdint>
#include <string>

#include "google/protobuf/message.h"

namespace kvrelay::cli {

// One line of the client's own: the stream went on at `address` for the `resumes`th time, after `tokens` tokens.
std::string ResumedLine(uint32_t resumes, const std::string& address, uint64_t tokens);

// One line with its newline. A message that has no JSON form (a peer may send a duration out of range) becomes
// {"invalid_message": "why"}.
std::string ToJsonLine(const google::protobuf::Message& message);

}  // namespace kvrelay::cli
