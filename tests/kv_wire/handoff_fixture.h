// A sender with a filled cache and a receiver with an empty one, of a small layout.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/kv_wire/handoff_receiver.h"
#include "common/kv_wire/handoff_sender.h"

namespace kvrelay::kv_wire {

using worker::v1::KvCommit;
using worker::v1::KvFrame;
using worker::v1::KvHeader;

class StepClock : public Clock {
 public:
  absl::Duration Now() const override { return absl::Milliseconds(now_.fetch_add(1)); }
  int64_t UnixNanos() const override { return 0; }

 private:
  mutable std::atomic<int64_t> now_ = 0;
};

inline constexpr uint32_t kEos = 2;
inline constexpr uint32_t kVocabulary = 100;
inline constexpr char kSender[] = "prefill-1";

// Random finite values: bit 14 of each 16-bit word (of halves, scales too; bit 30 of each float) is cleared, so no
// exponent is all ones.
inline void FillCache(kv::SequenceCache* cache, int positions, uint32_t seed) {
  std::mt19937 random(seed);
  const size_t bytes = cache->layout().PositionBytes();
  std::vector<std::byte> row(bytes);
  for (int layer = 0; layer < cache->layout().layers; ++layer)
    for (int position = 0; position < positions; ++position) {
      for (size_t i = 0; i < bytes; ++i) row[i] = static_cast<std::byte>(random() & (i % 2 ? 0xbf : 0xff));
      cache->CopyIn(layer, position, 1, row);
    }
}

inline std::vector<std::byte> CacheBytes(const kv::SequenceCache& cache, int first, int end) {
  const size_t bytes = cache.layout().PositionBytes();
  std::vector<std::byte> all;
  for (int layer = 0; layer < cache.layout().layers; ++layer)
    for (int position = first; position < end; ++position) {
      all.resize(all.size() + bytes);
      cache.CopyOut(layer, position, 1, absl::MakeSpan(all).last(bytes));
    }
  return all;
}

// Both ends of a handoff of positions [first, tokens), and the messages of a faultless sender.
class Handoff {
 public:
  explicit Handoff(int tokens, int first = 0, kv::KvType type = kv::KvType::kF16, int max_end = 0, uint32_t seed = 1)
      : first_(first),
        tokens_(tokens),
        layout_{.layers = 3, .kv_heads = 2, .head_dim = 32, .type = type},
        source_pool_(*kv::BlockPool::Create(layout_, kv::BlocksFor(std::max(tokens, max_end)))),
        target_pool_(*kv::BlockPool::Create(layout_, kv::BlocksFor(std::max(tokens, max_end)))) {
    const int room = std::max(tokens, max_end);
    source = *kv::SequenceCache::Reserve(source_pool_.get(), room);
    target = *kv::SequenceCache::Reserve(target_pool_.get(), room);
    FillCache(source.get(), room, seed);
    if (first > 0) target->Publish(first);
    expectation.handoff_id = std::string(16, 'h');
    expectation.model_fingerprint = "0123abcd";
    expectation.numerics_id = "1-Q4_1-f16-native";
    expectation.first_position = first;
    expectation.tokens = tokens;
    expectation.max_end_position = room;
    expectation.vocabulary = kVocabulary;
    expectation.logprobs = 2;
    expectation.ends_request = [](uint32_t, uint32_t token) { return token == kEos; };
  }

  std::unique_ptr<HandoffReceiver> MakeReceiver() const {
    auto receiver = std::make_unique<HandoffReceiver>(target, expectation, &clock_);
    EXPECT_EQ(*receiver->OpenAttempt(1, kSender), 0u);
    return receiver;
  }

  KvHeader Header(uint32_t attempt = 1, const std::string& instance = kSender) const {
    worker::v1::WorkerIdentity sender;
    sender.set_instance(instance);
    sender.set_model_fingerprint(expectation.model_fingerprint);
    sender.set_numerics_id(expectation.numerics_id);
    return HandoffSender(source, first_, tokens_).Header(expectation.handoff_id, attempt, sender);
  }

  // Frames in the order in which they become ready if the prompt is computed in chunks of `chunk` positions.
  std::vector<KvFrame> Frames(int chunk = 512) { return Send(chunk).first; }

  KvCommit Commit() {
    KvCommit commit = Send(512).second;
    *commit.add_selected() = Token(0, 5);
    return commit;
  }

  static worker::v1::Selected Token(uint32_t index, uint32_t id) {
    worker::v1::Selected token;
    token.set_index(index);
    token.set_token_id(id);
    return token;
  }

  std::pair<std::vector<KvFrame>, KvCommit> Send(int chunk) {
    HandoffSender sender(source, first_, tokens_);
    std::vector<KvFrame> frames;
    for (int begin = first_; begin < tokens_; begin += chunk)
      for (int layer = 0; layer < layout_.layers; ++layer)
        for (const Piece& piece : sender.OnLayer(layer, std::min(tokens_, begin + chunk)))
          sender.BuildFrame(piece, &frames.emplace_back());
    EXPECT_TRUE(sender.complete());
    return {frames, sender.Commit()};
  }

  const int first_;
  const int tokens_;
  const kv::KvLayout layout_;
  const std::unique_ptr<kv::BlockPool> source_pool_, target_pool_;
  std::shared_ptr<kv::SequenceCache> source, target;
  HandoffExpectation expectation;
  StepClock clock_;
};

}  // namespace kvrelay::kv_wire
