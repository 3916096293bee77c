// The digest of a handoff: XXH3-128 over the XXH3-128 digests of the (layer, block) payloads, layer ascending and
// within it block ascending. It depends on the bytes alone, not on the order or the chunking in which they were sent.
//
// Not thread-safe; plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kvrelay::kv_wire {

// Canonical (big endian) XXH3-128.
using Digest = std::array<uint8_t, 16>;

Digest DigestOf(absl::Span<const std::byte> bytes);

class HandoffDigest {
 public:
  // For `blocks` blocks, numbered here from 0 at the first block of the handoff's range.
  HandoffDigest(int layers, int blocks);

  bool Has(int layer, int block) const { return has_[Index(layer, block)]; }
  // REQUIRES: not Has(layer, block).
  void Add(int layer, int block, const Digest& payload_digest);
  // True if every pair of the first `blocks` blocks was added, and none beyond.
  bool Complete(int blocks) const;
  // Digest of the first `blocks` blocks. REQUIRES: Complete(blocks).
  Digest Finish(int blocks) const;

 private:
  size_t Index(int layer, int block) const;

  const int layers_;
  const int blocks_;
  std::vector<Digest> digests_;  // [layers][blocks]
  std::vector<bool> has_;        // [layers][blocks]
  size_t added_ = 0;
};

}  // namespace kvrelay::kv_wire
