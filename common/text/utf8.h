// Reads UTF-8 one part at a time: whole characters, maximal invalid parts (Unicode 15, table 3-7), an unfinished end.
//
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvrelay::text {

inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

struct Utf8Part {
  enum Kind {
    kCharacter,
    kInvalid,     // no continuation can make these bytes a character
    kIncomplete,  // the text ends inside a character
  };
  Kind kind;
  size_t size;
};

// The first part of `bytes`. What it is depends on no byte after it, except that kIncomplete may become another kind.
// REQUIRES: not empty.
Utf8Part NextUtf8Part(std::string_view bytes);

// Appends the whole characters at the front of `bytes` to `text`, with U+FFFD for each invalid part, and returns how
// many bytes that was: all but an incomplete end.
size_t AppendValidUtf8(std::string_view bytes, std::string& text);

}  // namespace kvrelay::text
