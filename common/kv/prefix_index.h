// Finds blocks by the tokens whose keys and values they hold, so that requests with equal beginnings share them, and
// chooses which of the blocks that nobody uses is given up first.
//
// A block is named by the block before it and its own 64 tokens; the first of a sequence by its salt and tokens. Names
// are compared in full, never by hash alone. Blocks of sequences with different salts never meet.
//
// An idle block is one that is named and not referenced. Idle blocks that were found at least once since they were
// named are given up after those that never were, unless they are more than three quarters of all idle ones; within
// both, the one idle for longest goes first. Sequences return their last blocks first, so that the beginning of a
// sequence, which more requests share, outlives its end.
//
// Not thread-safe: the block pool's lock guards it.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kvrelay::kv {

using BlockId = uint32_t;

class PrefixIndex {
 public:
  // A named block in its sequence; numbers are never used twice. kRoot: before the first block.
  using Node = uint64_t;
  static constexpr Node kRoot = 0;

  // For block ids below `blocks`.
  explicit PrefixIndex(int blocks) : of_block_(blocks) {}

  struct Found {
    Node node;
    BlockId block;
  };
  // The block that follows `parent` with these tokens. `salt` counts at the root only.
  std::optional<Found> Find(Node parent, absl::string_view salt, absl::Span<const int32_t> tokens);
  // Names `block`, unless another one has that name. Returns the node of the name.
  Node Name(Node parent, absl::string_view salt, absl::Span<const int32_t> tokens, BlockId block);
  bool named(BlockId block) const { return of_block_[block] != nullptr; }

  // The last reference to a named block has gone; the first has come.
  void SetIdle(BlockId block);
  void SetBusy(BlockId block);
  int idle() const { return static_cast<int>(fresh_.size() + proven_.size()); }
  // Forgets the name of the idle block that is worth least. REQUIRES: idle() > 0.
  BlockId GiveUp();

 private:
  struct Key {
    Node parent;
    std::string salt;
    std::vector<int32_t> tokens;
  };
  struct KeyView {
    Node parent;
    absl::string_view salt;
    absl::Span<const int32_t> tokens;
    KeyView(Node p, absl::string_view s, absl::Span<const int32_t> t)
        : parent(p), salt(p == kRoot ? s : absl::string_view()), tokens(t) {}
    KeyView(const Key& key) : KeyView(key.parent, key.salt, key.tokens) {}  // NOLINT: a view of it
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const KeyView& key) const;
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const KeyView& a, const KeyView& b) const {
      return a.parent == b.parent && a.salt == b.salt && a.tokens == b.tokens;
    }
  };
  struct Entry {
    Node node;
    BlockId block;
    bool proven = false;  // found since it was named
    bool idle = false;
    std::list<BlockId>::iterator place = {};  // in the list of its kind, while idle
  };
  using Map = absl::node_hash_map<Key, Entry, Hash, Equal>;

  std::list<BlockId>& ListOf(const Entry& entry) { return entry.proven ? proven_ : fresh_; }

  Map entries_;
  std::vector<Map::value_type*> of_block_;  // null: not named
  std::list<BlockId> fresh_, proven_;       // idle blocks, idle for longest first
  Node last_node_ = kRoot;
};

}  // namespace kvrelay::kv
