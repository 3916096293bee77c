// Room for a session in the KV pool. One place for it, so that every engine shares prefixes by the same rule.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/engine/session.h"
#include "common/kv/sequence_cache.h"

namespace kvrelay::engine {

// Takes all that the session can need, or nothing (RESOURCE_EXHAUSTED). Begins with the blocks that the pool knows of
// its tokens, unless it computes everything again anyway. REQUIRES: the spec is valid.
absl::StatusOr<std::shared_ptr<kv::SequenceCache>> ReserveCache(kv::BlockPool* pool, const SessionSpec& spec);

}  // namespace kvrelay::engine
