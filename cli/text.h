// Text for people: what a terminal shows of a string, quoting, and numbers with units. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "google/protobuf/duration.pb.h"

namespace kvrelay::cli {

// Offset of the first byte that is not part of well-formed UTF-8 (no surrogates, no overlong forms); empty if all is
// well-formed.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// Columns that `text` takes on a terminal: wide East Asian characters and emoji take two, combining marks none. An
// approximation by ranges. REQUIRES: well-formed UTF-8; other bytes count as one column each.
size_t DisplayWidth(std::string_view text);

// `text` in double quotes with control characters, quotes and backslashes escaped as in C.
std::string Quote(std::string_view text);

// `text` without control characters other than newline and tab, so that generated text cannot drive the terminal.
std::string SafeForTerminal(std::string_view text);

double Milliseconds(const google::protobuf::Duration& duration);

std::string FormatMilliseconds(double milliseconds);  // "1,234.5 ms"
std::string FormatCount(uint64_t count);              // "1,234,567"
// A quantity with a decimal prefix, three digits: "950 FLOP", "3.21 GFLOP", "12.3 MB".
std::string FormatQuantity(double value, std::string_view unit);
// Positions [first, end): "none", "3" or "0..2".
std::string FormatRange(uint64_t first, uint64_t end);

}  // namespace kvrelay::cli
