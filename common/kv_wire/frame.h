// Frames of the KV wire: how a piece of a cache becomes a KvFrame, and the checks that depend on the frame alone. The
// grammar is in proto/kvrelay/worker/v1/kv.proto. Free functions, safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/kv/layout.h"
#include "common/kv/sequence_cache.h"
#include "kvrelay/worker/v1/kv.pb.h"

namespace kvrelay::kv_wire {

// Version of the payload grammar.
inline constexpr uint32_t kPayloadVersion = 1;

// Positions of one layer that travel in one frame: all inside one block.
struct Piece {
  int layer;
  int first_position;
  int positions;
  bool operator==(const Piece&) const = default;
};

// Payload bytes of positions [first, end): layers * positions * PositionBytes.
uint64_t PayloadBytes(const kv::KvLayout& layout, int first_position, int end_position);

worker::v1::KvLayout LayoutToProto(const kv::KvLayout& layout);

// CRC32C (Castagnoli) of `bytes` appended to what `crc` covers; 0 covers nothing.
uint32_t ExtendCrc32c(uint32_t crc, absl::Span<const std::byte> bytes);
// CRC32C of a frame: layer, first_position and positions as 4 bytes each, little endian, then the payload.
uint32_t FrameCrc32c(const worker::v1::KvFrame& frame);

// The bytes of a frame's payload.
absl::Span<const std::byte> PayloadOf(const worker::v1::KvFrame& frame);

// Fills `frame` from the cache; reuses its memory. REQUIRES: `piece` is inside the cache.
void BuildFrame(const kv::SequenceCache& cache, const Piece& piece, worker::v1::KvFrame* frame);

// Whether every value is finite. REQUIRES: `payload` is whole positions.
bool AllFinite(const kv::KvLayout& layout, absl::Span<const std::byte> payload);

}  // namespace kvrelay::kv_wire
