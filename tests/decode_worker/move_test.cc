// A live move between two decode workers with real gRPC between them: the stream goes on where it was, byte for byte.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/worker/test_client.h"
#include "tests/worker/test_worker.h"

namespace kvrelay::decode_worker {
namespace {

using kvrelay::testing::DecodeClient;
using kvrelay::testing::ExpectedTokens;
using kvrelay::testing::HandoffId;
using kvrelay::testing::MakeSpec;
using kvrelay::testing::TestDecodeWorker;
using worker::v1::DecodeRequest;
using worker::v1::DecodeResponse;
using worker::v1::GenerationSpec;

// Tokens of a stream that a test need not read while it runs: fewer than may wait for a slow reader.
constexpr uint32_t kUnreadSafely = 900;

DecodeRequest MoveTo(const std::string& address, char id, uint32_t tokens) {
  DecodeRequest request;
  request.mutable_move_to()->set_kv_address(address);
  request.mutable_move_to()->set_decode_instance("decode-1");
  request.mutable_move_to()->set_handoff_id(HandoffId(id));
  request.mutable_move_to()->set_tokens(tokens);
  return request;
}

// The spec of a target that is reserved after `selected` tokens.
GenerationSpec After(const GenerationSpec& spec, const std::vector<uint32_t>& selected) {
  GenerationSpec target = spec;
  target.mutable_token_ids()->Add(selected.begin(), selected.end());
  return target;
}

std::vector<uint32_t> Tokens(const std::vector<DecodeResponse>& events) {
  std::vector<uint32_t> tokens;
  for (const DecodeResponse& event : events)
    if (event.has_selected()) tokens.push_back(event.selected().token_id());
  return tokens;
}

// Reads tokens of a stream that has begun until `count` have come.
std::vector<uint32_t> ReadTokens(DecodeClient& client, size_t count) {
  std::vector<uint32_t> tokens;
  while (tokens.size() < count) {
    const auto event = client.Next();
    if (!event) break;
    if (event->has_selected()) tokens.push_back(event->selected().token_id());
  }
  return tokens;
}

// Begins a stream at its source, whose engine then stops soon. Its first token.
void BeginStream(DecodeClient& from, TestDecodeWorker& source, const GenerationSpec& spec,
                 std::vector<uint32_t>* tokens) {
  source.engine().Allow(12);
  ASSERT_TRUE(from.Reserve('a', spec, worker::v1::SOURCE_COMPUTED));
  *tokens = ReadTokens(from, 1);
}

// Adds the tokens that come before MoveFailed; MoveFailed, or nothing at the end of the stream.
std::optional<DecodeResponse> ReadToMoveFailed(DecodeClient& from, std::vector<uint32_t>* tokens) {
  std::optional<DecodeResponse> event;
  while ((event = from.Next()) && !event->has_move_failed())
    if (event->has_selected()) tokens->push_back(event->selected().token_id());
  return event;
}

void Append(const std::vector<uint32_t>& more, std::vector<uint32_t>* tokens) {
  tokens->insert(tokens->end(), more.begin(), more.end());
}

// Room at a target, for what was selected so far.
void ReserveTarget(DecodeClient& to, char id, const GenerationSpec& spec, const std::vector<uint32_t>& selected) {
  ASSERT_TRUE(to.Reserve(id, After(spec, selected), worker::v1::SOURCE_MOVED, "decode-1"));
  ASSERT_TRUE(to.Next()->has_reserved());
}

// Lets the engine go on little by little until it is asked to hold the session, which shows that MoveTo has arrived;
// then without limit.
void StepUntilHeld(kvrelay::testing::FakeEngine& engine, const std::atomic<bool>& held) {
  while (!held) {
    engine.Allow(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  engine.Allow(INT64_MAX);
}

TEST(MoveTest, TheStreamGoesOnAtTheTarget) {
  constexpr uint32_t kMax = 400;
  TestDecodeWorker source, target;
  GenerationSpec spec = MakeSpec(300, kMax);
  spec.set_logprobs(2);
  const std::vector<uint32_t> expected = ExpectedTokens(spec, kMax);
  DecodeClient from(*source.stub);
  source.engine().Allow(60);  // the prompt and a few tokens
  ASSERT_TRUE(from.Reserve('a', spec, worker::v1::SOURCE_COMPUTED));
  const std::vector<uint32_t> before = ReadTokens(from, 5);

  DecodeClient to(*target.stub);
  ASSERT_NO_FATAL_FAILURE(ReserveTarget(to, 'b', spec, before));
  ASSERT_TRUE(from.Write(MoveTo(target.address(), 'b', 305)));
  // A token every few milliseconds: a stream that is over before its first block is sent has nothing to move.
  std::atomic<bool> stop = false;
  std::thread pace([&] {
    while (!stop) {
      source.engine().Allow(4);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const auto last_words = from.Rest();
  stop = true;
  pace.join();
  EXPECT_TRUE(from.Finish().ok());
  ASSERT_GE(last_words.size(), 2u);
  const DecodeResponse& moved = last_words[last_words.size() - 2];
  ASSERT_TRUE(moved.has_moved()) << moved.ShortDebugString();
  const worker::v1::Ended& ended = last_words.back().ended();
  EXPECT_EQ(ended.reason(), worker::v1::END_REASON_MOVED);
  EXPECT_EQ(ended.positions().shipped(), moved.moved().positions());
  EXPECT_EQ(ended.positions().kv_ready(), moved.moved().positions());
  std::vector<uint32_t> at_source = before;
  Append(Tokens(last_words), &at_source);
  EXPECT_EQ(at_source, std::vector<uint32_t>(expected.begin(), expected.begin() + at_source.size()));

  const auto events = to.Rest();
  EXPECT_TRUE(to.Finish().ok());
  EXPECT_EQ(Tokens(events), std::vector<uint32_t>(expected.begin() + 5, expected.end()));
  uint32_t index = 5;
  for (const DecodeResponse& event : events) {
    if (!event.has_selected()) continue;
    EXPECT_EQ(event.selected().index(), index);
    EXPECT_EQ(event.selected().positions().kv_ready(), 300 + index);
    EXPECT_EQ(event.selected().top_size(), 2);
    ++index;
  }
  const worker::v1::Positions& positions = events.back().ended().positions();
  EXPECT_EQ(positions.received(), moved.moved().positions());
  EXPECT_EQ(positions.computed(), 300 + kMax - 1 - moved.moved().positions()) << "nothing is computed again";
  EXPECT_TRUE(source.engine().WaitUntilFree());
  EXPECT_TRUE(target.engine().WaitUntilFree());
}

TEST(MoveTest, WithoutTheTargetTheStreamGoesOnAtTheSource) {
  constexpr uint32_t kMax = 300;
  TestDecodeWorker source, target;
  const GenerationSpec spec = MakeSpec(100, kMax);
  DecodeClient from(*source.stub);
  source.engine().Allow(20);
  ASSERT_TRUE(from.Reserve('a', spec, worker::v1::SOURCE_COMPUTED));
  std::vector<uint32_t> tokens = ReadTokens(from, 3);
  // First a target that nobody has reserved, then, after its refusal, an address where nobody listens.
  for (const std::string& address : {target.address(), std::string("127.0.0.1:1")}) {
    ASSERT_TRUE(from.Write(MoveTo(address, 'x', 103)));
    source.engine().Allow(100);
    const std::optional<DecodeResponse> event = ReadToMoveFailed(from, &tokens);
    ASSERT_TRUE(event.has_value());
    EXPECT_NE(event->move_failed().code(), 0);
    EXPECT_FALSE(event->move_failed().message().empty());
  }
  source.engine().Allow(INT64_MAX);
  const auto rest = from.Rest();
  Append(Tokens(rest), &tokens);
  EXPECT_EQ(tokens, ExpectedTokens(spec, kMax));
  EXPECT_EQ(rest.back().ended().reason(), worker::v1::END_REASON_LENGTH);
  EXPECT_TRUE(source.engine().WaitUntilFree());
}

// The tokens that the target lacks must still be known when the source pauses.
TEST(MoveTest, ATargetReservedTooLongAgoIsRefusedWithTheReason) {
  constexpr uint32_t kMax = 700;
  TestDecodeWorker source, target;
  const GenerationSpec spec = MakeSpec(100, kMax);
  DecodeClient from(*source.stub);
  std::vector<uint32_t> tokens;
  ASSERT_NO_FATAL_FAILURE(BeginStream(from, source, spec, &tokens));
  DecodeClient to(*target.stub);
  ASSERT_NO_FATAL_FAILURE(ReserveTarget(to, 'b', spec, tokens));
  source.engine().Allow(1300);  // some units a token, one for each layer
  Append(ReadTokens(from, 300), &tokens);
  std::atomic<bool> held = false;
  source.engine().BeforeHold([&] { held = true; });
  ASSERT_TRUE(from.Write(MoveTo(target.address(), 'b', 101)));
  StepUntilHeld(source.engine(), held);
  const std::optional<DecodeResponse> event = ReadToMoveFailed(from, &tokens);
  ASSERT_TRUE(event.has_value() && event->has_move_failed());
  EXPECT_EQ(event->move_failed().code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(event->move_failed().message().find("more than 256 before"), std::string::npos)
      << event->move_failed().message();
  Append(Tokens(from.Rest()), &tokens);
  EXPECT_EQ(tokens, ExpectedTokens(spec, kMax));
  to.Cancel();
  EXPECT_TRUE(source.engine().WaitUntilFree());
  EXPECT_TRUE(target.engine().WaitUntilFree());
}

TEST(MoveTest, TheTargetGoesAwayWhileTheSourcePushes) {
  constexpr uint32_t kMax = 200;
  TestDecodeWorker source, target;
  const GenerationSpec spec = MakeSpec(100, kMax);
  DecodeClient from(*source.stub);
  std::vector<uint32_t> tokens;
  ASSERT_NO_FATAL_FAILURE(BeginStream(from, source, spec, &tokens));
  {
    DecodeClient to(*target.stub);
    ASSERT_NO_FATAL_FAILURE(ReserveTarget(to, 'b', spec, tokens));
    ASSERT_TRUE(from.Write(MoveTo(target.address(), 'b', 101)));
    to.Cancel();
  }
  EXPECT_TRUE(target.engine().WaitUntilFree());
  source.engine().Allow(INT64_MAX);
  Append(Tokens(from.Rest()), &tokens);
  EXPECT_EQ(tokens, ExpectedTokens(spec, kMax));
  EXPECT_TRUE(source.engine().WaitUntilFree());
}

// A move that fails just when its source pauses: the pause ends with it, whichever comes first.
TEST(MoveTest, TheTargetGoesAwayJustWhenTheSourcePauses) {
  constexpr uint32_t kMax = kUnreadSafely;
  TestDecodeWorker source, target;
  const GenerationSpec spec = MakeSpec(100, kMax);
  DecodeClient from(*source.stub);
  std::vector<uint32_t> tokens;
  ASSERT_NO_FATAL_FAILURE(BeginStream(from, source, spec, &tokens));
  DecodeClient to(*target.stub);
  ASSERT_NO_FATAL_FAILURE(ReserveTarget(to, 'b', spec, tokens));
  std::atomic<bool> held = false;
  source.engine().BeforeHold([&] {
    held = true;
    to.Cancel();
    target.engine().WaitUntilFree();  // so the commit comes too late
  });
  ASSERT_TRUE(from.Write(MoveTo(target.address(), 'b', 101)));
  StepUntilHeld(source.engine(), held);
  const std::optional<DecodeResponse> event = ReadToMoveFailed(from, &tokens);
  ASSERT_TRUE(event.has_value() && event->has_move_failed());
  Append(Tokens(from.Rest()), &tokens);
  EXPECT_EQ(tokens, ExpectedTokens(spec, kMax));
  EXPECT_TRUE(source.engine().WaitUntilFree());
}

// The reader's hold does not stand in the way of a move, and is in force again when the move fails.
TEST(MoveTest, AHeldStreamMoves) {
  constexpr uint32_t kMax = kUnreadSafely;
  TestDecodeWorker source, target;
  const GenerationSpec spec = MakeSpec(100, kMax);
  DecodeClient from(*source.stub);
  std::vector<uint32_t> tokens;
  ASSERT_NO_FATAL_FAILURE(BeginStream(from, source, spec, &tokens));
  DecodeClient to(*target.stub);
  ASSERT_NO_FATAL_FAILURE(ReserveTarget(to, 'b', spec, tokens));
  ASSERT_TRUE(from.SendHold());
  ASSERT_TRUE(from.Write(MoveTo("127.0.0.1:1", 'x', 101)));
  source.engine().Allow(100);
  const std::optional<DecodeResponse> event = ReadToMoveFailed(from, &tokens);
  ASSERT_TRUE(event.has_value() && event->has_move_failed());
  Append(Tokens(from.UntilStill()), &tokens);
  ASSERT_LT(tokens.size(), kMax);
  source.engine().Allow(INT64_MAX);
  EXPECT_TRUE(from.UntilStill().empty()) << "the hold is in force again";

  ASSERT_TRUE(from.Write(MoveTo(target.address(), 'b', 101)));
  const auto last_words = from.Rest();
  ASSERT_GE(last_words.size(), 2u);
  EXPECT_TRUE(last_words[last_words.size() - 2].has_moved());
  const auto events = to.Rest();
  EXPECT_TRUE(to.Finish().ok());
  const std::vector<uint32_t> expected = ExpectedTokens(spec, kMax);
  EXPECT_EQ(Tokens(events), std::vector<uint32_t>(expected.begin() + 1, expected.end()));
  EXPECT_TRUE(source.engine().WaitUntilFree());
  EXPECT_TRUE(target.engine().WaitUntilFree());
}

// The router lets go of a target that hangs, and tries another while the source still waits for the first.
TEST(MoveTest, AnotherTargetTakesThePlaceOfOneThatIsGivenUp) {
  constexpr uint32_t kMax = kUnreadSafely;
  TestDecodeWorker source, hung, target;
  const GenerationSpec spec = MakeSpec(100, kMax);
  DecodeClient from(*source.stub);
  std::vector<uint32_t> tokens;
  ASSERT_NO_FATAL_FAILURE(BeginStream(from, source, spec, &tokens));
  DecodeClient to_hung(*hung.stub), to(*target.stub);
  ASSERT_NO_FATAL_FAILURE(ReserveTarget(to_hung, 'b', spec, tokens));
  ASSERT_NO_FATAL_FAILURE(ReserveTarget(to, 'c', spec, tokens));
  // No token comes before the second MoveTo has arrived: each lets the session go on, as its start does.
  source.engine().Allow(0);
  std::atomic<bool> held = false;
  source.engine().BeforeHold([&] { held = true; });
  ASSERT_TRUE(from.Write(MoveTo(hung.address(), 'b', 101)));
  ASSERT_TRUE(from.Write(MoveTo(target.address(), 'c', 101)));
  while (source.engine().resumes() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  StepUntilHeld(source.engine(), held);
  EXPECT_EQ(from.Rest().back().ended().reason(), worker::v1::END_REASON_MOVED);
  EXPECT_EQ(to.Rest().back().ended().reason(), worker::v1::END_REASON_LENGTH);
  EXPECT_TRUE(source.engine().WaitUntilFree());
  to_hung.Cancel();
  EXPECT_EQ(to_hung.Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(hung.engine().WaitUntilFree());
}

TEST(MoveTest, CancelAndFinishEndAMoveToo) {
  for (const bool cancel : {true, false}) {
    TestDecodeWorker source, target;
    const GenerationSpec spec = MakeSpec(100, 1500);
    DecodeClient from(*source.stub);
    std::vector<uint32_t> tokens;
    ASSERT_NO_FATAL_FAILURE(BeginStream(from, source, spec, &tokens));
    DecodeClient to(*target.stub);
    ASSERT_NO_FATAL_FAILURE(ReserveTarget(to, 'b', spec, tokens));
    source.engine().Allow(0);  // the move cannot come to its end
    ASSERT_TRUE(from.Write(MoveTo(target.address(), 'b', 101)));
    if (cancel) {
      from.Cancel();
      EXPECT_EQ(from.Finish().error_code(), grpc::StatusCode::CANCELLED);
    } else {
      ASSERT_TRUE(from.SendFinish());
      EXPECT_EQ(from.Rest().back().ended().reason(), worker::v1::END_REASON_FINISHED_BY_ROUTER);
    }
    EXPECT_TRUE(source.engine().WaitUntilFree());
    to.Cancel();
    EXPECT_EQ(to.Finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(target.engine().WaitUntilFree());
  }
}

TEST(MoveTest, CommandsThatDoNotFitEndTheCall) {
  TestDecodeWorker source;
  const GenerationSpec spec = MakeSpec(100, 500);
  const auto refuse = [&](const DecodeRequest& request, worker::v1::Source kind, bool started) {
    DecodeClient client(*source.stub);
    if (started) {
      source.engine().Allow(12);
      client.Reserve('a', spec, kind);
      client.Next();
      if (kind != worker::v1::SOURCE_RECEIVED) ReadTokens(client, 1);
    }
    client.Write(request);
    return client.Finish().error_code();
  };
  const auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  EXPECT_EQ(refuse(MoveTo("127.0.0.1:9", 'b', 101), worker::v1::SOURCE_COMPUTED, false), kInvalid);
  EXPECT_EQ(refuse(MoveTo("127.0.0.1:9", 'b', 101), worker::v1::SOURCE_RECEIVED, true), kInvalid);
  EXPECT_EQ(refuse(MoveTo("127.0.0.1:9", 'b', 101), worker::v1::SOURCE_NO_CACHE, true), kInvalid);
  EXPECT_EQ(refuse(MoveTo("127.0.0.1:9", 'b', 99), worker::v1::SOURCE_COMPUTED, true), kInvalid);
  EXPECT_EQ(refuse(MoveTo("127.0.0.1:9", 'b', 5000), worker::v1::SOURCE_COMPUTED, true), kInvalid);
  EXPECT_EQ(refuse(MoveTo("127.0.0.1:0", 'b', 101), worker::v1::SOURCE_COMPUTED, true), kInvalid);
  EXPECT_EQ(refuse(MoveTo("nonsense", 'b', 101), worker::v1::SOURCE_COMPUTED, true), kInvalid);
  DecodeRequest short_id = MoveTo("127.0.0.1:9", 'b', 101);
  short_id.mutable_move_to()->set_handoff_id("x");
  EXPECT_EQ(refuse(short_id, worker::v1::SOURCE_COMPUTED, true), kInvalid);
  EXPECT_TRUE(source.engine().WaitUntilFree());
}

}  // namespace
}  // namespace kvrelay::decode_worker
