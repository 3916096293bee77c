// Guesses the next tokens of a stream from its own text, so that one step can check several of them: where the last
// tokens stood before, what followed them there is likely to follow again (prompt lookup decoding, A. Saxena, 2023).
// Guesses never change the output: a token is selected from the logits of its own position as without them.
//
// How many are made follows from how many were right. A wrong guess costs a row of the step, so a text that does not
// repeat itself is soon asked only now and then.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kvrelay::engine {

// Of one stream. Not thread-safe.
class Drafter {
 public:
  // Tokens that may follow `history`, most likely ones first in their order; at most `limit`, perhaps none.
  std::vector<int32_t> Guess(absl::Span<const int32_t> history, int limit);
  // Of `made` guesses, all of Guess() or its first ones, the first `right` were selected. REQUIRES: made > 0.
  void Learn(int made, int right);

 private:
  int length_ = 4;    // guesses to make next time
  int failures_ = 0;  // times in a row that none was right
  int pause_ = 0;     // steps left without a guess
};

}  // namespace kvrelay::engine
