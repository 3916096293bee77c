#include "common/kv_wire/frame.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>

namespace kvrelay::kv_wire {
namespace {

// Several floats per word. Adding one unit of the exponent's lowest bit to the exponent alone carries into the sign bit
// exactly if the exponent is all ones (infinity or NaN), and never beyond.
bool FloatsFinite(uint64_t exponent, uint64_t unit, uint64_t sign, absl::Span<const std::byte> payload) {
  constexpr size_t kWords = 8;  // a fixed number, so that the compiler makes vectors of them
  uint64_t seen[kWords] = {};
  for (size_t at = 0; at < payload.size(); at += sizeof(seen)) {
    uint64_t words[kWords] = {};
    if (payload.size() - at >= sizeof(words)) {
      std::memcpy(words, payload.data() + at, sizeof(words));
    } else {
      std::memcpy(words, payload.data() + at, payload.size() - at);
    }
    for (size_t i = 0; i < kWords; ++i) seen[i] |= (words[i] & exponent) + unit;
  }
  return std::none_of(std::begin(seen), std::end(seen), [sign](uint64_t word) { return (word & sign) != 0; });
}

// int8: the scales behind the values of each head.
bool ScalesFinite(const kv::KvLayout& layout, absl::Span<const std::byte> payload) {
  for (; !payload.empty(); payload.remove_prefix(layout.RowBytes())) {
    for (size_t at = layout.head_dim; at < layout.RowBytes(); at += sizeof(uint16_t)) {
      uint16_t half;
      std::memcpy(&half, payload.data() + at, sizeof(half));
      if ((half & 0x7c00) == 0x7c00) return false;
    }
  }
  return true;
}

}  // namespace

uint64_t PayloadBytes(const kv::KvLayout& layout, int first_position, int end_position) {
  return static_cast<uint64_t>(layout.layers) * (end_position - first_position) * layout.PositionBytes();
}

worker::v1::KvLayout LayoutToProto(const kv::KvLayout& layout) {
  worker::v1::KvLayout proto;
  proto.set_version(kPayloadVersion);
  proto.set_layers(layout.layers);
  proto.set_kv_heads(layout.kv_heads);
  proto.set_head_dim(layout.head_dim);
  proto.set_block_positions(kv::kBlockPositions);
  proto.set_type(std::string(kv::KvTypeName(layout.type)));
  return proto;
}

uint32_t ExtendCrc32c(uint32_t crc, absl::Span<const std::byte> bytes) {
  // The library works on the bare remainder: the standard's inversions before and after are ours. Its length is an int.
  constexpr size_t kMost = size_t{1} << 30;
  crc = ~crc;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kMost, bytes.size()))) {
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(std::min(kMost, bytes.size())), crc);
  }
  return ~crc;
}

uint32_t FrameCrc32c(const worker::v1::KvFrame& frame) {
  std::array<std::byte, 12> fields;
  size_t at = 0;
  for (uint32_t field : {frame.layer(), frame.first_position(), frame.positions()})
    for (int shift = 0; shift < 32; shift += 8) fields[at++] = static_cast<std::byte>(field >> shift);
  return ExtendCrc32c(ExtendCrc32c(0, fields), PayloadOf(frame));
}

absl::Span<const std::byte> PayloadOf(const worker::v1::KvFrame& frame) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(frame.payload().data()), frame.payload().size());
}

void BuildFrame(const kv::SequenceCache& cache, const Piece& piece, worker::v1::KvFrame* frame) {
  frame->set_layer(piece.layer);
  frame->set_first_position(piece.first_position);
  frame->set_positions(piece.positions);
  std::string* payload = frame->mutable_payload();
  payload->resize(piece.positions * cache.layout().PositionBytes());
  cache.CopyOut(piece.layer, piece.first_position, piece.positions,
                absl::MakeSpan(reinterpret_cast<std::byte*>(payload->data()), payload->size()));
  frame->set_crc32c(FrameCrc32c(*frame));
}

bool AllFinite(const kv::KvLayout& layout, absl::Span<const std::byte> payload) {
  switch (layout.type) {
    case kv::KvType::kF16:
      return FloatsFinite(0x7c00'7c00'7c00'7c00, 0x0400'0400'0400'0400, 0x8000'8000'8000'8000, payload);
    case kv::KvType::kBf16:
      return FloatsFinite(0x7f80'7f80'7f80'7f80, 0x0080'0080'0080'0080, 0x8000'8000'8000'8000, payload);
    case kv::KvType::kF32:
      return FloatsFinite(0x7f80'0000'7f80'0000, 0x0080'0000'0080'0000, 0x8000'0000'8000'0000, payload);
    case kv::KvType::kInt8:
      return ScalesFinite(layout, payload);
  }
  return false;
}

}  // namespace kvrelay::kv_wire
