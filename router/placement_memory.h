// What a router remembers for placement: which workers are likely to hold the KV of which beginnings, and what a
// handoff costs. Learned from its own requests; a hint that has become wrong costs time, never bits, and is corrected
// by what the worker says when it is used.
//
// Beginnings are whole blocks of 64 tokens, each known by a hash over its tokens and all before it, and the salt. The
// least recently used are forgotten beyond `blocks_max`.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "router/worker.h"

namespace kvrelay::router {

// A process: instance and epoch, hashed.
using WorkerKey = uint64_t;
WorkerKey KeyOf(const Worker& worker);

// Positions that workers are likely to hold of one sequence, from 0. Others hold none.
using HeldPositions = absl::flat_hash_map<WorkerKey, uint32_t>;

inline constexpr size_t kBlockTokens = 64;  // of KV

// A sequence of tokens as the memory sees it: a hash for each whole block.
using BlockChain = std::vector<uint64_t>;
BlockChain ChainOf(absl::string_view salt, absl::Span<const uint32_t> tokens);

class PlacementMemory {
 public:
  static constexpr size_t kBlocksMax = 1 << 16;  // 4 M tokens
  explicit PlacementMemory(size_t blocks_max = kBlocksMax) : blocks_max_(blocks_max) {}

  HeldPositions Held(const BlockChain& chain);
  // The worker holds the sequence's first `positions`, as far as it was told, and no more of it.
  void Learn(const BlockChain& chain, const Worker& worker, uint32_t positions);

  // What a handoff added to the time of a prompt: last layer computed until the receipt.
  void OnHandoff(absl::Duration tail);
  // Its moving average; 5 ms before the first one.
  absl::Duration handoff() const;

 private:
  static constexpr size_t kWorkersMax = 8;  // per block, those that said so last
  struct Block {
    uint64_t hash;
    std::vector<WorkerKey> workers;
  };

  const size_t blocks_max_;
  mutable std::mutex mutex_;     // guards all below
  std::list<Block> by_recency_;  // used last first
  absl::flat_hash_map<uint64_t, std::list<Block>::iterator> blocks_;
  absl::Duration handoff_ = absl::Milliseconds(5);
};

}  // namespace kvrelay::router
