#include "common/kv/prefix_index.h"

#include <tuple>

#include "absl/hash/hash.h"
#include "common/base/check.h"

namespace kvrelay::kv {

// Seeded by the process, so that no client can choose tokens that collide.
size_t PrefixIndex::Hash::operator()(const KeyView& key) const {
  using Parts = std::tuple<Node, absl::string_view, absl::Span<const int32_t>>;
  return absl::Hash<Parts>()(Parts(key.parent, key.salt, key.tokens));
}

std::optional<PrefixIndex::Found> PrefixIndex::Find(Node parent, absl::string_view salt,
                                                    absl::Span<const int32_t> tokens) {
  const auto it = entries_.find(KeyView(parent, salt, tokens));
  if (it == entries_.end()) return std::nullopt;
  Entry& entry = it->second;
  if (entry.idle && !entry.proven) proven_.splice(proven_.end(), fresh_, entry.place);
  entry.proven = true;
  return Found{entry.node, entry.block};
}

PrefixIndex::Node PrefixIndex::Name(Node parent, absl::string_view salt, absl::Span<const int32_t> tokens,
                                    BlockId block) {
  const KeyView view(parent, salt, tokens);
  if (const auto it = entries_.find(view); it != entries_.end()) return it->second.node;
  KV_CHECK(!named(block), "a block has one name");
  Key key{parent, std::string(view.salt), std::vector<int32_t>(tokens.begin(), tokens.end())};
  const auto it = entries_.emplace(std::move(key), Entry{.node = ++last_node_, .block = block}).first;
  of_block_[block] = &*it;
  return it->second.node;
}

void PrefixIndex::SetIdle(BlockId block) {
  Entry& entry = of_block_[block]->second;
  std::list<BlockId>& list = ListOf(entry);
  entry.idle = true;
  entry.place = list.insert(list.end(), block);
}

void PrefixIndex::SetBusy(BlockId block) {
  Entry& entry = of_block_[block]->second;
  ListOf(entry).erase(entry.place);
  entry.idle = false;
}

BlockId PrefixIndex::GiveUp() {
  KV_CHECK(idle() > 0, "there is an idle block");
  const bool fresh_first = !fresh_.empty() && 4 * fresh_.size() >= fresh_.size() + proven_.size();
  std::list<BlockId>& list = fresh_first || proven_.empty() ? fresh_ : proven_;
  const BlockId block = list.front();
  list.pop_front();
  entries_.erase(entries_.find(KeyView(of_block_[block]->first)));
  of_block_[block] = nullptr;
  return block;
}

}  // namespace kvrelay::kv
