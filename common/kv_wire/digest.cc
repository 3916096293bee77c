#include "common/kv_wire/digest.h"

#include <xxhash.h>

#include <cstring>

#include "common/base/check.h"

namespace kvrelay::kv_wire {
namespace {

static_assert(sizeof(XXH128_canonical_t) == sizeof(Digest));

Digest Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Digest digest;
  std::memcpy(digest.data(), canonical.digest, sizeof(digest));
  return digest;
}

}  // namespace

Digest DigestOf(absl::Span<const std::byte> bytes) { return Canonical(XXH3_128bits(bytes.data(), bytes.size())); }

HandoffDigest::HandoffDigest(int layers, int blocks)
    : layers_(layers),
      blocks_(blocks),
      digests_(static_cast<size_t>(layers) * blocks),
      has_(static_cast<size_t>(layers) * blocks, false) {}

size_t HandoffDigest::Index(int layer, int block) const {
  KV_CHECK(layer >= 0 && layer < layers_ && block >= 0 && block < blocks_, "the pair is inside the handoff");
  return static_cast<size_t>(layer) * blocks_ + block;
}

void HandoffDigest::Add(int layer, int block, const Digest& payload_digest) {
  const size_t index = Index(layer, block);
  KV_CHECK(!has_[index], "each (layer, block) pair is added once");
  digests_[index] = payload_digest;
  has_[index] = true;
  ++added_;
}

bool HandoffDigest::Complete(int blocks) const {
  if (blocks > blocks_ || added_ != static_cast<size_t>(layers_) * blocks) return false;
  for (int layer = 0; layer < layers_; ++layer)
    for (int block = 0; block < blocks; ++block)
      if (!Has(layer, block)) return false;
  return true;
}

Digest HandoffDigest::Finish(int blocks) const {
  KV_CHECK(Complete(blocks), "the digest of a handoff covers all its frames");
  std::vector<Digest> ordered;
  ordered.reserve(added_);
  for (int layer = 0; layer < layers_; ++layer)
    for (int block = 0; block < blocks; ++block) ordered.push_back(digests_[Index(layer, block)]);
  return DigestOf(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(ordered.data()), ordered.size() * sizeof(Digest)));
}

}  // namespace kvrelay::kv_wire
