// A faultless handoff: whatever the chunking and the arrival order, the receiver holds the sender's bytes.
#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/kv_wire/handoff_fixture.h"

namespace kvrelay::kv_wire {
namespace {

// A head of 32 dimensions at one position.
int BytesOf32(kv::KvType type) {
  switch (type) {
    case kv::KvType::kF16:
    case kv::KvType::kBf16:
      return 64;
    case kv::KvType::kF32:
      return 128;
    case kv::KvType::kInt8:
      return 34;
  }
  return 0;
}

class RoundTrip : public testing::TestWithParam<kv::KvType> {};

TEST_P(RoundTrip, EveryChunkingGivesTheSameBytesAndDigest) {
  for (int tokens : {1, 63, 64, 65, 200}) {
    std::string digest;
    for (int chunk : {1, 7, 64, 512, tokens}) {
      Handoff handoff(tokens, 0, GetParam());
      const auto receiver = handoff.MakeReceiver();
      auto [frames, commit] = handoff.Send(chunk);
      *commit.add_selected() = Handoff::Token(0, 5);
      ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
      uint64_t bytes = 0;
      for (const KvFrame& frame : frames) {
        ASSERT_TRUE(receiver->OnFrame(1, frame).ok());
        EXPECT_EQ(handoff.target->kv_ready(), 0) << "nothing is published before the commit";
        bytes += frame.payload().size();
      }
      const auto receipt = receiver->OnCommit(1, commit);
      ASSERT_TRUE(receipt.ok()) << receipt.status();
      EXPECT_EQ(handoff.target->kv_ready(), tokens);
      EXPECT_EQ(CacheBytes(*handoff.target, 0, tokens), CacheBytes(*handoff.source, 0, tokens));

      const uint64_t formula = 3ull * tokens * 2 * 2 * BytesOf32(GetParam());
      EXPECT_EQ(bytes, formula);
      EXPECT_EQ(commit.payload_bytes(), formula);
      EXPECT_EQ(handoff.Header().payload_bytes(), formula);
      EXPECT_EQ(receipt->payload_bytes, formula);
      EXPECT_EQ(receipt->received, static_cast<uint32_t>(tokens));
      EXPECT_EQ(receipt->winner, 1u);
      EXPECT_FALSE(receipt->duplicate);
      EXPECT_GT(receipt->duration, absl::ZeroDuration());

      if (digest.empty()) digest = commit.digest();
      EXPECT_EQ(commit.digest(), digest) << tokens << " tokens in chunks of " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RoundTrip, testing::ValuesIn(kv::kAllKvTypes),
                         [](const auto& info) { return std::string(kv::KvTypeName(info.param)); });

TEST(Handoff, FramesMayArriveInAnyOrder) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Handoff handoff(200);
    const auto receiver = handoff.MakeReceiver();
    auto frames = handoff.Frames();
    std::shuffle(frames.begin(), frames.end(), std::mt19937(seed));
    ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
    for (const KvFrame& frame : frames) ASSERT_TRUE(receiver->OnFrame(1, frame).ok());
    ASSERT_TRUE(receiver->OnCommit(1, handoff.Commit()).ok());
    EXPECT_EQ(CacheBytes(*handoff.target, 0, 200), CacheBytes(*handoff.source, 0, 200));
  }
}

TEST(Handoff, ContinuesAPrefixThatTheReceiverHolds) {
  for (int first : {1, 10, 63, 64, 100, 128, 199}) {
    Handoff handoff(200, first);
    const auto before = CacheBytes(*handoff.target, 0, first);
    const auto receiver = handoff.MakeReceiver();
    ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
    for (const KvFrame& frame : handoff.Frames(7)) ASSERT_TRUE(receiver->OnFrame(1, frame).ok());
    const auto receipt = receiver->OnCommit(1, handoff.Commit());
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    EXPECT_EQ(receipt->received, static_cast<uint32_t>(200 - first));
    EXPECT_EQ(handoff.target->kv_ready(), 200);
    EXPECT_EQ(CacheBytes(*handoff.target, first, 200), CacheBytes(*handoff.source, first, 200));
    EXPECT_EQ(CacheBytes(*handoff.target, 0, first), before);
  }
}

// A stream that moves while it goes on: the header's end is an upper bound, the commit knows how many tokens there are.
TEST(Handoff, TheCommitMayEndBeforeTheHeadersBound) {
  for (int end : {70, 100, 128, 150}) {
    Handoff handoff(70, 0, kv::KvType::kF16, /*max_end=*/150);
    const auto receiver = handoff.MakeReceiver();
    KvHeader header = handoff.Header();
    header.set_end_position(150);
    header.set_payload_bytes(PayloadBytes(handoff.layout_, 0, 150));
    ASSERT_TRUE(receiver->OnHeader(header).ok());
    HandoffSender sender(handoff.source, 0, end);
    for (int layer = 0; layer < 3; ++layer)
      for (const Piece& piece : sender.OnLayer(layer, end)) {
        KvFrame frame;
        sender.BuildFrame(piece, &frame);
        ASSERT_TRUE(receiver->OnFrame(1, frame).ok());
      }
    KvCommit commit = sender.Commit();
    for (int i = 0; i <= end - 70; ++i) *commit.add_selected() = Handoff::Token(i, 5);
    const auto receipt = receiver->OnCommit(1, commit);
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    EXPECT_EQ(handoff.target->kv_ready(), end);
  }
}

TEST(HandoffSender, BlocksGoOutWhenFullAndTheLastLayerByLayer) {
  Handoff handoff(130);
  HandoffSender sender(handoff.source, 0, 130);
  using testing::ElementsAre;
  using testing::IsEmpty;
  // Chunk [0, 100): block 0 of each layer. Chunk [100, 130): block 1 and the rest, layer by layer.
  for (int layer = 0; layer < 3; ++layer) EXPECT_THAT(sender.OnLayer(layer, 100), ElementsAre(Piece{layer, 0, 64}));
  for (int layer = 0; layer < 3; ++layer)
    EXPECT_THAT(sender.OnLayer(layer, 130), ElementsAre(Piece{layer, 64, 64}, Piece{layer, 128, 2}));
  EXPECT_THAT(sender.OnLayer(0, 130), IsEmpty()) << "each piece once";
  EXPECT_FALSE(sender.complete());
  EXPECT_DEATH((void)sender.Commit(), "covers all its frames");
  EXPECT_DEATH(sender.OnLayer(3, 130), "layer exists");
  EXPECT_DEATH(HandoffSender(handoff.source, 5, 5), "range of its cache");
  EXPECT_DEATH(HandoffSender(handoff.source, 0, 131), "range of its cache");
}

// Compute thread and writer as in the prefill worker: the queue between them is all the synchronization there is.
TEST(HandoffSender, ComputeAndWriterThreadsMeetOnlyInTheQueue) {
  Handoff handoff(200);
  const auto expected = CacheBytes(*handoff.source, 0, 200);
  auto pool = *kv::BlockPool::Create(handoff.layout_, 4);
  std::shared_ptr<kv::SequenceCache> computing = *kv::SequenceCache::Reserve(pool.get(), 200);
  HandoffSender sender(computing, 0, 200);
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<Piece> queue;
  const auto has_work = [&queue] { return !queue.empty(); };

  std::jthread compute([&] {
    std::vector<std::byte> row(handoff.layout_.PositionBytes());
    for (int begin = 0; begin < 200; begin += 25)
      for (int layer = 0; layer < 3; ++layer) {
        for (int position = begin; position < begin + 25; ++position) {
          handoff.source->CopyOut(layer, position, 1, absl::MakeSpan(row));
          computing->CopyIn(layer, position, 1, row);
        }
        const auto ready = sender.OnLayer(layer, begin + 25);
        std::lock_guard lock(mutex);
        queue.insert(queue.end(), ready.begin(), ready.end());
        filled.notify_one();
      }
  });
  const auto receiver = handoff.MakeReceiver();
  ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
  KvFrame frame;
  while (!sender.complete()) {
    std::unique_lock lock(mutex);
    filled.wait(lock, has_work);
    const Piece piece = queue.front();
    queue.pop_front();
    lock.unlock();
    sender.BuildFrame(piece, &frame);
    ASSERT_TRUE(receiver->OnFrame(1, frame).ok());
  }
  compute.join();
  KvCommit commit = sender.Commit();
  *commit.add_selected() = Handoff::Token(0, 5);
  ASSERT_TRUE(receiver->OnCommit(1, commit).ok());
  EXPECT_EQ(CacheBytes(*handoff.target, 0, 200), expected);
}

}  // namespace
}  // namespace kvrelay::kv_wire
