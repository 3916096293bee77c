// When a stream that moves pauses: not before the past is on its way, and not as late as a slow link would like.
#include "decode_worker/decode_move.h"

#include <gtest/gtest.h>

#include "tests/worker/fake_engine.h"

namespace kvrelay::decode_worker {
namespace {

constexpr kv::KvLayout kLayout{.layers = 3, .kv_heads = 2, .head_dim = 16, .type = kv::KvType::kF16};
constexpr int kPast = 320;  // positions there before the move
constexpr uint32_t kTargetTokens = kPast + 1;

// A link whose writes end when the test says so.
class SlowLink final : public kv_wire::KvLink, public kv_wire::KvTransport {
 public:
  std::shared_ptr<kv_wire::KvLink> Open(const std::string& address,
                                        std::shared_ptr<kv_wire::KvLinkListener> listener) override {
    listener_ = std::move(listener);
    return {std::shared_ptr<void>(), this};
  }
  void Write(const worker::v1::ReceiveKvRequest& message, bool last) override { frames_ += message.has_frame(); }
  void Cancel() override {}

  void EndWrite() { listener_->OnWritten(true); }
  void End() { std::exchange(listener_, nullptr)->OnLinkEnded(absl::CancelledError("over"), {}); }
  int frames() const { return frames_; }

 private:
  std::shared_ptr<kv_wire::KvLinkListener> listener_;
  int frames_ = 0;
};

class SameThread final : public TaskRunner {
 public:
  void Run(std::function<void()> task) override { task(); }
};

class DecodeMoveTest : public ::testing::Test {
 protected:
  DecodeMoveTest() {
    std::vector<int32_t> tokens(kPast);
    for (int layer = 0; layer < kLayout.layers; ++layer) testing::WriteFakeKv(*cache_, layer, 0, tokens);
    cache_->Publish(kPast);
  }
  ~DecodeMoveTest() override { link_.End(); }

  // One more token: its KV, and whether the stream shall pause.
  bool Select() {
    const int position = cache_->kv_ready();
    const int32_t token = 7;
    for (int layer = 0; layer < kLayout.layers; ++layer)
      testing::WriteFakeKv(*cache_, layer, position, absl::MakeConstSpan(&token, 1));
    cache_->Publish(1);
    return move_.OnSelected(static_cast<uint32_t>(position) + 2, position + 1);
  }

  std::unique_ptr<kv::BlockPool> pool_ = *kv::BlockPool::Create(kLayout, 100);
  std::shared_ptr<kv::SequenceCache> cache_ = *kv::SequenceCache::Reserve(pool_.get(), 1000);
  SlowLink link_;
  SameThread tasks_;
  kv_wire::SendBudget budget_{1 << 20};
  worker::v1::WorkerIdentity identity_;
  std::shared_ptr<kv_wire::KvSender> sender_ = kv_wire::KvSender::Start(
      {.transport = &link_, .tasks = &tasks_, .budget = &budget_, .clock = Clock::Real(), .identity = &identity_},
      cache_, 0, 1000, {.handoff_id = "id", .attempt = 1, .address = "target", .instance = "target"},
      [](const absl::StatusOr<kv_wire::KvTransfer>&) {});
  DecodeMove move_{sender_, kTargetTokens, cache_};
};

TEST_F(DecodeMoveTest, PausesWhenAllButTheLastBlockIsOnItsWay) {
  const int blocks = kPast / kv::kBlockPositions;
  EXPECT_FALSE(Select()) << "nothing of the past has gone out";
  link_.EndWrite();  // the header; each end begins the next frame
  for (int i = 1; i < (blocks - 1) * kLayout.layers; ++i) {
    EXPECT_FALSE(move_.OnSelected(kTargetTokens + 1, cache_->kv_ready())) << i;
    link_.EndWrite();
  }
  EXPECT_EQ(link_.frames(), (blocks - 1) * kLayout.layers);
  EXPECT_TRUE(Select());
  EXPECT_TRUE(move_.pauses());
  EXPECT_FALSE(Select()) << "it is asked once";
}

TEST_F(DecodeMoveTest, ALinkThatDoesNotKeepUpPausesTheStreamInTheEnd) {
  int tokens = 1;
  while (!Select()) ++tokens;
  EXPECT_EQ(tokens, 128);
  EXPECT_EQ(link_.frames(), 0);
}

TEST_F(DecodeMoveTest, PausesOnlyForATokenThatTheTargetLacks) {
  EXPECT_FALSE(move_.OnSelected(kTargetTokens, kPast));
  for (int i = 0; i <= kPast / kv::kBlockPositions * kLayout.layers; ++i) link_.EndWrite();
  EXPECT_FALSE(move_.OnSelected(kTargetTokens, kPast));
  EXPECT_TRUE(move_.OnSelected(kTargetTokens + 1, kPast));
}

}  // namespace
}  // namespace kvrelay::decode_worker
