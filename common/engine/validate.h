// Checks of a session's spec against the model: everything that a request could get wrong.
#pragma once

#include "absl/status/status.h"
#include "common/engine/session.h"

namespace kvrelay::engine {

// INVALID_ARGUMENT naming the field, the value and the limit.
absl::Status ValidateSpec(const SessionSpec& spec, int vocabulary, int context_length);

// Positions that need room in the cache: those of prompt + max_tokens, or of the given tokens alone for a prefill.
int PositionsNeeded(const SessionSpec& spec);

}  // namespace kvrelay::engine
