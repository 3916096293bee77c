// Turns token bytes into text as they arrive: emits whole UTF-8 only, and holds back what may begin a stop string.
//
// A small value type; not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvrelay::text {

class StreamDecoder {
 public:
  // `stop`: strings that end the text, in UTF-8; may be empty. Empty strings among them never match. `keep_stop`: the
  // one that matched is emitted.
  explicit StreamDecoder(std::vector<std::string> stop = {}, bool keep_stop = false);

  struct Piece {
    std::string text;      // final now
    bool stopped = false;  // a stop string was completed; nothing behind it is ever emitted
    std::string stop;  // which one: of those that this Add completed the one that starts first, the longest of those
  };

  // Bytes of the next token. `may_stop` false (before min_tokens): stop strings that complete now do not count.
  // REQUIRES: no earlier Piece had stopped.
  Piece Add(std::string_view bytes, bool may_stop = true);
  // What is still held back when the request ends for another reason; an incomplete character becomes U+FFFD.
  std::string Flush();

 private:
  // One stop string and how much of it the text so far ends with (Knuth-Morris-Pratt): each byte of text costs constant
  // time, however often the string repeats itself.
  struct Matcher {
    std::string stop;
    std::vector<size_t> fallback;  // [size + 1]: longest proper prefix that also ends stop[0, i)
    size_t matched = 0;
  };

  static Matcher MakeMatcher(std::string stop);
  // True if `byte` completes the stop string.
  static bool Advance(Matcher& matcher, char byte);

  std::vector<Matcher> matchers_;
  bool keep_stop_;
  std::string bytes_;  // bytes that do not form whole UTF-8 yet
  std::string held_;   // whole text that may begin a stop string
};

}  // namespace kvrelay::text
