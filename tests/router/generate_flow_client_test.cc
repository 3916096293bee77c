// Clients that do not keep up: their streams are held, and go on or end.
#include "tests/router/flow_fixture.h"

namespace kvrelay::router {
namespace {

using testing::SizeIs;

constexpr FlowLimits kLimits;

class SlowClientTest : public testing::Test {
 protected:
  void SetUp() override {
    f.request.spec.set_max_tokens(40);
    f.request.spec.set_ignore_eos(true);
  }
  // Lets the stream run until `count` tokens are out.
  void ReadTo(size_t count) {
    while (f.sink.Ids().size() < count) ASSERT_TRUE(f.cluster.Step());
  }
  std::vector<wire::DecodeRequest::CommandCase> CommandsAfter(size_t first) const {
    std::vector<wire::DecodeRequest::CommandCase> commands;
    for (size_t i = first; i < f.cluster.decode_requests.size(); ++i)
      commands.push_back(f.cluster.decode_requests[i].command_case());
    return commands;
  }
  void Look(size_t unread) {
    f.sink.unread = unread;
    f.Pass(absl::Milliseconds(250));
  }
  // Runs the request until its stream is held.
  void StartHeld() {
    f.Start();
    ReadTo(5);
    Look(kLimits.unread_pause);
    f.cluster.RunAll();
  }

  FlowFixture f;
};

TEST_F(SlowClientTest, TheStreamWaitsUntilMostIsRead) {
  f.AddWorkers(1, 1);
  f.Start();
  ReadTo(5);
  const size_t before = f.cluster.decode_requests.size();
  Look(kLimits.unread_pause - 1);
  EXPECT_THAT(CommandsAfter(before), SizeIs(0));
  Look(kLimits.unread_pause);
  Look(kLimits.unread_pause + 3);  // what was on the way
  EXPECT_THAT(CommandsAfter(before), testing::ElementsAre(wire::DecodeRequest::kHold));
  f.cluster.RunAll();
  const size_t held = f.sink.Ids().size();
  EXPECT_LT(held, 40u);
  Look(kLimits.unread_resume + 1);
  EXPECT_THAT(CommandsAfter(before), SizeIs(1));
  f.cluster.RunAll();
  EXPECT_EQ(f.sink.Ids().size(), held);
  Look(kLimits.unread_resume);
  EXPECT_THAT(CommandsAfter(before), testing::ElementsAre(wire::DecodeRequest::kHold, wire::DecodeRequest::kResume));
  f.cluster.RunAll();
  f.CheckSuccess();
}

TEST_F(SlowClientTest, TheStreamEndsWhenNothingIsReadForLong) {
  f.AddWorkers(0, 1);
  StartHeld();
  // As long as something is read it waits.
  for (size_t unread = kLimits.unread_pause - 1; unread > kLimits.unread_pause - 4; --unread) {
    Look(unread);
    f.Pass(kLimits.unread_timeout - absl::Seconds(1));
    ASSERT_EQ(f.sink.ends, 0) << f.sink.status;
  }
  f.Pass(absl::Seconds(2));
  EXPECT_EQ(f.sink.ends, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(f.sink.status)) << f.sink.status;
  EXPECT_EQ(f.cluster.open_calls(), 0u);
}

TEST_F(SlowClientTest, ANewPlanIsHeldToo) {
  f.AddWorkers(1, 2);
  StartHeld();
  const size_t before = f.cluster.decode_requests.size();
  f.cluster.Kill(f.cluster.opened.front());
  f.cluster.RunAll();
  EXPECT_THAT(CommandsAfter(before), testing::ElementsAre(wire::DecodeRequest::kReserve, wire::DecodeRequest::kHold));
  EXPECT_EQ(f.sink.ends, 0);
  Look(0);
  f.cluster.RunAll();
  f.CheckSuccess();
}

}  // namespace
}  // namespace kvrelay::router
