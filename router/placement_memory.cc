#include "router/placement_memory.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace kvrelay::router {
WorkerKey KeyOf(const Worker& worker) { return absl::HashOf(worker.instance(), worker.epoch()); }

BlockChain ChainOf(absl::string_view salt, absl::Span<const uint32_t> tokens) {
  BlockChain chain;
  chain.reserve(tokens.size() / kBlockTokens);
  uint64_t hash = absl::HashOf(salt);
  for (; tokens.size() >= kBlockTokens; tokens.remove_prefix(kBlockTokens)) {
    hash = absl::HashOf(hash, tokens.first(kBlockTokens));
    chain.push_back(hash);
  }
  return chain;
}

HeldPositions PlacementMemory::Held(const BlockChain& chain) {
  HeldPositions held;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < chain.size(); ++i) {
    const auto found = blocks_.find(chain[i]);
    if (found == blocks_.end()) break;
    by_recency_.splice(by_recency_.begin(), by_recency_, found->second);
    for (const WorkerKey worker : found->second->workers) {
      // Only without a gap.
      uint32_t& positions = held[worker];
      if (positions == i * kBlockTokens) positions += kBlockTokens;
    }
  }
  return held;
}

void PlacementMemory::Learn(const BlockChain& chain, const Worker& worker, uint32_t positions) {
  const WorkerKey key = KeyOf(worker);
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < chain.size(); ++i) {
    const bool holds = (i + 1) * kBlockTokens <= positions;
    auto found = blocks_.find(chain[i]);
    if (found == blocks_.end()) {
      if (!holds) break;
      by_recency_.push_front({chain[i], {}});
      found = blocks_.emplace(chain[i], by_recency_.begin()).first;
    }
    std::vector<WorkerKey>& workers = found->second->workers;
    std::erase(workers, key);
    if (holds) workers.insert(workers.begin(), key);
    if (workers.size() > kWorkersMax) workers.pop_back();
  }
  for (; blocks_.size() > blocks_max_; by_recency_.pop_back()) blocks_.erase(by_recency_.back().hash);
}

void PlacementMemory::OnHandoff(absl::Duration tail) {
  std::lock_guard lock(mutex_);
  handoff_ = 0.9 * handoff_ + 0.1 * std::max(tail, absl::ZeroDuration());
}

absl::Duration PlacementMemory::handoff() const {
  std::lock_guard lock(mutex_);
  return handoff_;
}

}  // namespace kvrelay::router
