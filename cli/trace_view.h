// The article's table for real requests.
#pragma once

#include <map>
#include <ostream>
#include <vector>

#include "cli/trace_record.h"

namespace kvrelay::cli {

// Text of token ids, by id. An id without an entry is shown by number alone.
using Pieces = std::map<uint32_t, std::string>;

// Ids of the prompt that PrintPrompt shows: all of a short prompt, else its two ends.
std::vector<uint32_t> ShownPromptPositions(uint32_t prompt_tokens);

// The prompt's tokens under their names p0, p1, ...
void PrintPrompt(const v1::Started& started, const Pieces& pieces, std::ostream& out);

// Where the request ran, a row for each run, and the totals. First-time positions are orange, recomputed ones purple,
// reads green. A request that failed shows the runs that it had.
void PrintTrace(const TraceRecord& record, const Pieces& pieces, std::ostream& out, bool color);

// Whether the tokens are identical, and total times with their ratio to the shortest.
void PrintComparison(const std::vector<TraceRecord>& records, std::ostream& out, bool color);

}  // namespace kvrelay::cli
