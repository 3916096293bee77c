// What the output of one sequence must look like, and how far it has come.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace kvrelay::sampling {

// Not thread-safe, but for Copy: a function of the grammar and the tokens accepted, so one made anew from a longer
// history is the same as one that has followed it.
class OutputGrammar {
 public:
  virtual ~OutputGrammar() = default;
  // Goes on from the same place. May be called from many threads at once.
  virtual absl::StatusOr<std::unique_ptr<OutputGrammar>> Copy() const = 0;
  // Sets bit i of `words`, from the lowest bit of the first, if token i may come next; where the text is complete, the
  // model's end tokens are among them. INVALID_ARGUMENT if the grammar takes too long to tell.
  virtual absl::Status Mask(absl::Span<uint32_t> words) = 0;
  // `token` came next; not an end token. INVALID_ARGUMENT if it may not.
  virtual absl::Status Accept(int32_t token) = 0;
};

}  // namespace kvrelay::sampling
