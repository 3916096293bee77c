// Attempts of one reservation: one is open at a time, the first commit wins, nothing is written after the end.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/kv_wire/handoff_fixture.h"

namespace kvrelay::kv_wire {
namespace {

using absl::StatusCode;

// All messages of a faultless sender.
void SendAll(Handoff* handoff, HandoffReceiver* receiver, uint32_t attempt, const std::string& instance) {
  ASSERT_TRUE(receiver->OnHeader(handoff->Header(attempt, instance)).ok());
  for (const KvFrame& frame : handoff->Frames()) ASSERT_TRUE(receiver->OnFrame(attempt, frame).ok());
  const auto receipt = receiver->OnCommit(attempt, handoff->Commit());
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_EQ(receipt->winner, attempt);
}

TEST(Attempts, AreNumberedInSequence) {
  Handoff handoff(70);
  HandoffReceiver receiver(handoff.target, handoff.expectation, &handoff.clock_);
  for (uint32_t bad : {0u, 2u, 0xffffffffu})
    EXPECT_EQ(receiver.OpenAttempt(bad, kSender).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(receiver.OnHeader(handoff.Header(0)).code(), StatusCode::kAborted) << "attempt 0 is never open";
  ASSERT_TRUE(receiver.OpenAttempt(1, kSender).ok());
  for (uint32_t bad : {0u, 1u, 3u})
    EXPECT_EQ(receiver.OpenAttempt(bad, kSender).status().code(), StatusCode::kInvalidArgument);
  SendAll(&handoff, &receiver, 1, kSender);
}

TEST(Attempts, ANewOneClosesTheOneBefore) {
  Handoff handoff(200);
  const auto receiver = handoff.MakeReceiver();
  const auto frames = handoff.Frames();
  ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
  for (size_t i = 0; i < frames.size() / 2; ++i) ASSERT_TRUE(receiver->OnFrame(1, frames[i]).ok());
  ASSERT_EQ(*receiver->OpenAttempt(2, "prefill-2"), 0u);
  EXPECT_EQ(receiver->OnFrame(1, frames.back()).code(), StatusCode::kAborted);
  EXPECT_EQ(receiver->OnCommit(1, handoff.Commit()).status().code(), StatusCode::kAborted);
  EXPECT_EQ(receiver->OnHeader(handoff.Header(1)).code(), StatusCode::kAborted);
  EXPECT_EQ(handoff.target->kv_ready(), 0);
  SendAll(&handoff, receiver.get(), 2, "prefill-2");
  EXPECT_EQ(CacheBytes(*handoff.target, 0, 200), CacheBytes(*handoff.source, 0, 200));
}

TEST(Attempts, TheFirstCommitWinsAndLaterStreamsGetItsReceipt) {
  Handoff handoff(70);
  const auto receiver = handoff.MakeReceiver();
  ASSERT_EQ(*receiver->OpenAttempt(2, "prefill-2"), 0u);
  EXPECT_FALSE(receiver->published().has_value());
  SendAll(&handoff, receiver.get(), 2, "prefill-2");
  ASSERT_TRUE(receiver->published().has_value());
  const auto bytes = CacheBytes(*handoff.target, 0, 70);

  Handoff other(70, 0, kv::KvType::kF16, 0, /*seed=*/2);
  for (uint32_t attempt : {1u, 2u}) {
    EXPECT_TRUE(receiver->OnHeader(other.Header(attempt)).ok());
    for (const KvFrame& frame : other.Frames()) EXPECT_TRUE(receiver->OnFrame(attempt, frame).ok());
    const auto receipt = receiver->OnCommit(attempt, other.Commit());
    ASSERT_TRUE(receipt.ok());
    EXPECT_TRUE(receipt->duplicate);
    EXPECT_EQ(receipt->winner, 2u);
    EXPECT_EQ(receipt->received, 70u);
  }
  EXPECT_EQ(CacheBytes(*handoff.target, 0, 70), bytes) << "a duplicate writes nothing";
  EXPECT_EQ(handoff.target->kv_ready(), 70);
  EXPECT_EQ(*receiver->OpenAttempt(3, kSender), 2u) << "the winner instead of a new attempt";
  EXPECT_EQ(receiver->OnHeader(handoff.Header(3)).code(), StatusCode::kAborted);
}

TEST(Attempts, StrangersDoNotHurtTheOpenOne) {
  Handoff handoff(70);
  const auto receiver = handoff.MakeReceiver();
  EXPECT_EQ(receiver->OnHeader(handoff.Header(1, "prefill-9")).code(), StatusCode::kAborted);
  EXPECT_EQ(receiver->OnHeader(handoff.Header(7)).code(), StatusCode::kAborted);
  KvHeader foreign = handoff.Header();
  foreign.set_handoff_id(std::string(16, 'x'));
  EXPECT_EQ(receiver->OnHeader(foreign).code(), StatusCode::kNotFound);
  ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
  EXPECT_EQ(receiver->OnHeader(handoff.Header()).code(), StatusCode::kAborted) << "receiving already";
  EXPECT_EQ(receiver->OnFrame(7, handoff.Frames()[0]).code(), StatusCode::kAborted);
  for (const KvFrame& frame : handoff.Frames()) ASSERT_TRUE(receiver->OnFrame(1, frame).ok());
  EXPECT_TRUE(receiver->OnCommit(1, handoff.Commit()).ok());
}

TEST(Attempts, NothingIsAcceptedWithoutAHeader) {
  Handoff handoff(70);
  EXPECT_EQ(handoff.MakeReceiver()->OnFrame(1, handoff.Frames()[0]).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(handoff.MakeReceiver()->OnCommit(1, handoff.Commit()).status().code(), StatusCode::kInvalidArgument);
}

TEST(Attempts, AFailedOneStaysFailedAndTheNextWorks) {
  Handoff handoff(200);
  const auto receiver = handoff.MakeReceiver();
  const auto frames = handoff.Frames();
  ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
  ASSERT_TRUE(receiver->OnFrame(1, frames[0]).ok());
  KvFrame damaged = frames[1];
  damaged.mutable_payload()->front() ^= 1;
  EXPECT_EQ(receiver->OnFrame(1, damaged).code(), StatusCode::kDataLoss);
  EXPECT_EQ(receiver->OnFrame(1, frames[1]).code(), StatusCode::kAborted);
  EXPECT_EQ(receiver->OnHeader(handoff.Header()).code(), StatusCode::kAborted);
  EXPECT_EQ(receiver->OnCommit(1, handoff.Commit()).status().code(), StatusCode::kAborted);
  EXPECT_EQ(handoff.target->kv_ready(), 0);
  ASSERT_EQ(*receiver->OpenAttempt(2, kSender), 0u);
  SendAll(&handoff, receiver.get(), 2, kSender);
}

TEST(Attempts, NothingLandsAfterClose) {
  Handoff handoff(70);
  const auto receiver = handoff.MakeReceiver();
  const auto before = CacheBytes(*handoff.target, 0, 70);
  ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
  receiver->Close();
  EXPECT_EQ(receiver->OnFrame(1, handoff.Frames()[0]).code(), StatusCode::kAborted);
  EXPECT_EQ(receiver->OnCommit(1, handoff.Commit()).status().code(), StatusCode::kAborted);
  EXPECT_EQ(receiver->OnHeader(handoff.Header()).code(), StatusCode::kAborted);
  EXPECT_EQ(receiver->OpenAttempt(2, kSender).status().code(), StatusCode::kAborted);
  EXPECT_EQ(handoff.target->kv_ready(), 0);
  EXPECT_EQ(CacheBytes(*handoff.target, 0, 70), before);
}

// An old stream keeps sending other bytes while a new attempt runs: the new attempt's bytes are what is published.
TEST(Attempts, AStreamThatWasOvertakenNeverWrites) {
  Handoff handoff(200), other(200, 0, kv::KvType::kF16, 0, /*seed=*/2);
  for (int round = 0; round < 20; ++round) {
    handoff.target->Clear();
    const auto receiver = handoff.MakeReceiver();
    const auto old_frames = other.Frames();
    ASSERT_TRUE(receiver->OnHeader(other.Header(1)).ok());
    std::atomic<int> sent = 0;
    std::thread old([&] {
      for (const KvFrame& frame : old_frames) {
        (void)receiver->OnFrame(1, frame);
        ++sent;
      }
    });
    while (sent < round / 2) std::this_thread::yield();
    ASSERT_EQ(*receiver->OpenAttempt(2, "prefill-2"), 0u);
    SendAll(&handoff, receiver.get(), 2, "prefill-2");
    old.join();
    ASSERT_EQ(CacheBytes(*handoff.target, 0, 200), CacheBytes(*handoff.source, 0, 200));
  }
}

TEST(AttemptsDeathTest, TheReservationMustFitTheCache) {
  Handoff handoff(70);
  const auto make = [&handoff] { HandoffReceiver(handoff.target, handoff.expectation, &handoff.clock_); };
  handoff.expectation.max_end_position = 71;
  EXPECT_DEATH(make(), "inside its reservation");
  handoff.expectation.max_end_position = 70;
  handoff.expectation.first_position = 1;
  EXPECT_DEATH(make(), "continues what the cache holds");
}

}  // namespace
}  // namespace kvrelay::kv_wire
