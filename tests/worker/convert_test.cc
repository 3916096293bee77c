#include "common/worker/convert.h"

#include <gtest/gtest.h>

namespace kvrelay::worker {
namespace {

engine::SelectedToken Token() {
  engine::SelectedToken token{
      .index = 3, .selection = {}, .end = sampling::EndReason::kStopToken, .counts = {}, .run = {}};
  token.selection.token = 77;
  token.selection.logprob = -0.25f;
  token.selection.top = {{5, -1.0f}, {6, -2.0f}};
  token.counts = {
      .computed = 1, .reused = 2, .received = 3, .shipped = 4, .recomputed = 5, .discarded = 6, .kv_ready = 7};
  token.run.first_position = 8;
  token.run.attention_pairs = 9;
  token.run.flops = uint64_t{1} << 40;
  token.run.kv_bytes_read = uint64_t{1} << 41;
  token.run.start = absl::Milliseconds(1500);
  token.run.chunks = {{0, 64, absl::Milliseconds(1500), absl::Milliseconds(20)}};
  return token;
}

TEST(ConvertTest, Selected) {
  const v1::Selected selected = ToProto(Token(), /*logprobs=*/true, /*trace=*/true);
  EXPECT_EQ(selected.index(), 3);
  EXPECT_EQ(selected.token_id(), 77);
  EXPECT_EQ(selected.logprob(), -0.25f);
  ASSERT_EQ(selected.top_size(), 2);
  EXPECT_EQ(selected.top(1).token_id(), 6);
  EXPECT_EQ(selected.end(), v1::END_REASON_STOP_TOKEN);
  EXPECT_EQ(selected.run().first_position(), 8);
  EXPECT_EQ(selected.run().attention_pairs(), 9);
  EXPECT_EQ(selected.run().flops(), uint64_t{1} << 40);
  EXPECT_EQ(selected.run().kv_bytes_read(), uint64_t{1} << 41);
  ASSERT_EQ(selected.run().chunks_size(), 1);
  EXPECT_EQ(selected.run().chunks(0).end_position(), 64u);
  EXPECT_EQ(selected.run().chunks(0).duration().nanos(), 20'000'000);
  EXPECT_EQ(selected.run().start().seconds(), 1);
  EXPECT_EQ(selected.run().start().nanos(), 500'000'000);
}

TEST(ConvertTest, CountsKeepTheirNames) {
  const v1::Positions positions = ToProto(Token().counts);
  EXPECT_EQ(positions.computed(), 1);
  EXPECT_EQ(positions.reused(), 2);
  EXPECT_EQ(positions.received(), 3);
  EXPECT_EQ(positions.shipped(), 4);
  EXPECT_EQ(positions.recomputed(), 5);
  EXPECT_EQ(positions.discarded(), 6);
  EXPECT_EQ(positions.kv_ready(), 7);
}

TEST(ConvertTest, OnlyWhatWasAskedFor) {
  const v1::Selected selected = ToProto(Token(), /*logprobs=*/false, /*trace=*/false);
  EXPECT_FALSE(selected.has_logprob());
  EXPECT_EQ(selected.top_size(), 0);
  EXPECT_FALSE(selected.has_run());
  EXPECT_TRUE(selected.has_positions());
}

}  // namespace
}  // namespace kvrelay::worker
