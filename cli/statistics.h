// The line of figures after an answer.
#pragma once

#include <string>

#include "cli/client.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::cli {

// "36 prompt tokens | prefill 41.2 ms | 829,440 KV bytes shipped | 12 tokens, decode 54.3 tokens/s | first token 52.1
// ms | split: why". Parts that came true but are rare (retries, re-plans, moves, resumes, a stop string) are added at
// the end. REQUIRES: `end` is that of a stream that ended well.
std::string StatisticsLine(const v1::Started& started, const v1::Finished& finished, const CallEnd& end);

// "resumed 2 times, times and rates since then"; empty if it was not.
std::string ResumedText(const CallEnd& end);

// Tokens per second after the first one; 0 when fewer than two tokens or no time was measured.
double DecodeTokensPerSecond(const v1::Finished& finished);

}  // namespace kvrelay::cli
