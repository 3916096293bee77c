#include "common/engine/reserve_cache.h"

#include "common/engine/validate.h"

namespace kvrelay::engine {

absl::StatusOr<std::shared_ptr<kv::SequenceCache>> ReserveCache(kv::BlockPool* pool, const SessionSpec& spec) {
  const int positions = PositionsNeeded(spec);
  if (spec.source == KvSource::kNoCache) return kv::SequenceCache::Reserve(pool, positions);
  return kv::SequenceCache::ReserveShared(pool, positions, spec.cache_salt, spec.tokens);
}

}  // namespace kvrelay::engine
