// trace, chat and the questions, against a service on loopback.
#include <gmock/gmock.h>

#include "cli/exit_code.h"
#include "tests/cli/app_fixture.h"

namespace kvrelay::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CommandsTest : public AppTest {};

TEST_F(CommandsTest, TraceShowsNamesAndTable) {
  const Result result = Run({"trace", "abc", "--execution=no-cache", "--max-tokens=3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  p0 97 \"a\"  p1 98 \"b\"  p2 99 \"c\"\n"));
  EXPECT_THAT(result.out, HasSubstr("3 (decode)   p0 p1 p2 x0 x1  4           0..3        0..4"));
  EXPECT_THAT(result.out, HasSubstr("x2 67 \"C\""));
  EXPECT_THAT(result.out, Not(HasSubstr("\033"))) << "no colours outside a terminal";
  EXPECT_TRUE(LastRequest().trace());
}

TEST_F(CommandsTest, TraceIsShortByDefault) {
  ASSERT_EQ(Run({"trace", "abc"}).code, 0);
  EXPECT_EQ(LastRequest().max_tokens(), 8u);
}

TEST_F(CommandsTest, CompareRunsAllThreeWithOneSeed) {
  const Result result = Run({"trace", "--compare", "abc"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("tokens: identical in split, local, no-cache\n"));
  EXPECT_THAT(result.out, HasSubstr("no-cache   200.0 ms  4.00 x"));
  const std::vector<v1::GenerateRequest> requests = service_.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].execution(), v1::EXECUTION_SPLIT);
  EXPECT_EQ(requests[1].execution(), v1::EXECUTION_LOCAL);
  EXPECT_EQ(requests[2].execution(), v1::EXECUTION_NO_CACHE);
  EXPECT_FALSE(requests[0].sampling().has_seed());
  EXPECT_EQ(requests[1].sampling().seed(), 18446744073709551615u) << "the one drawn for the first";
  EXPECT_EQ(requests[2].sampling().seed(), 18446744073709551615u);
}

TEST_F(CommandsTest, CompareFailsOnDifferentTokens) {
  service_.BreakNoCache();
  const Result result = Run({"trace", "--compare", "abc"});
  EXPECT_EQ(result.code, kExitOther);
  EXPECT_THAT(result.out, HasSubstr("tokens: DIFFERENT: x1 is 66 in split and 122 in no-cache\n"));
}

TEST_F(CommandsTest, CompareGoesOnAfterAFailureAndFails) {
  service_.RefuseSplit();
  const Result result = Run({"trace", "--compare", "abc"});
  EXPECT_EQ(result.code, kExitUnavailable);
  EXPECT_THAT(result.err, HasSubstr("no prefill worker is ready"));
  EXPECT_THAT(result.out, HasSubstr("split: failed"));
  EXPECT_THAT(result.out, HasSubstr("identical in local, no-cache; failed: split"));
  EXPECT_THAT(result.out, HasSubstr("prompt: 3 tokens"));
}

TEST_F(CommandsTest, CompareAsJson) {
  const std::vector<nlohmann::json> lines = Lines(Run({"trace", "--compare", "--json", "abc"}).out);
  ASSERT_EQ(lines.size(), 3 * (2u + 2 * 8) + 1);
  EXPECT_EQ(lines.back()["comparison"]["identical"], true);
  EXPECT_EQ(lines.back()["comparison"]["total_ms"]["local"], 50.0);
}

TEST_F(CommandsTest, Tokenize) {
  EXPECT_EQ(Run({"tokenize", "a\n"}).out,
            "position  id  text\n"
            "--------  --  ----\n"
            "       0  97  \"a\"\n"
            "       1  10  \"\\n\"\n");
  EXPECT_EQ(Lines(Run({"tokenize", "--json", "a"}).out)[0], nlohmann::json::parse(R"({"ids":[97],"pieces":["a"]})"));
  EXPECT_THAT(Run({"tokenize", "--chat", "hi"}).out, HasSubstr("\"<\""));
}

TEST_F(CommandsTest, Detokenize) {
  EXPECT_EQ(Run({"detokenize", "72", "105"}).out, "Hi\n");
  EXPECT_EQ(Run({"detokenize", "72,105,200"}).out, "Hi\xEF\xBF\xBD\n");
  EXPECT_EQ(Run({"detokenize", "72", "--json"}).out, "{\"text\":\"H\"}\n");
}

TEST_F(CommandsTest, Model) {
  EXPECT_THAT(Run({"model"}).out, HasSubstr("context length   2,048 tokens\n"));
  EXPECT_THAT(Run({"model"}).out, HasSubstr("BOS token id     none\n"));
  EXPECT_EQ(Run({"model", "--model=other"}).code, kExitNotFound);
}

v1::WorkerStatus Worker(v1::WorkerRole role, bool ready) {
  v1::WorkerStatus worker;
  worker.set_role(role);
  worker.set_address("127.0.0.1:7000");
  worker.set_ready(ready);
  if (!ready) worker.set_problem("loading the model: 42 %");
  return worker;
}

TEST_F(CommandsTest, Status) {
  v1::GetStatusResponse status;
  status.set_version("0.1.0");
  status.set_instance("r1");
  *status.add_workers() = Worker(v1::WORKER_ROLE_DECODE, true);
  *status.add_workers() = Worker(v1::WORKER_ROLE_PREFILL, false);
  status.mutable_workers(0)->set_kv_blocks_total(1024);
  status.mutable_workers(0)->set_kv_blocks_referenced(3);
  service_.SetStatus(status);
  const Result result = Run({"status"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr(" 3/1024 "));
  EXPECT_THAT(result.out, HasSubstr("prefill 127.0.0.1:7000: loading the model: 42 %\n"));
  EXPECT_EQ(Lines(Run({"status", "--json"}).out)[0]["workers"][1]["ready"], false);
}

TEST_F(CommandsTest, WaitEndsWhenADecodeWorkerIsReady) {
  v1::GetStatusResponse status;
  *status.add_workers() = Worker(v1::WORKER_ROLE_DECODE, true);
  *status.add_workers() = Worker(v1::WORKER_ROLE_PREFILL, false);
  service_.SetStatus(status);
  EXPECT_EQ(Run({"wait", "--timeout-s=0"}).code, 0);
  const Result all = Run({"wait", "--timeout-s=0", "--all"});
  EXPECT_EQ(all.code, kExitOther);
  EXPECT_THAT(all.err, HasSubstr("  prefill 127.0.0.1:7000: loading the model: 42 %\n"));
  status.mutable_workers(0)->set_ready(false);
  service_.SetStatus(status);
  EXPECT_EQ(Run({"wait", "--timeout-s=0"}).code, kExitOther);
  service_.SetStatus({});
  EXPECT_THAT(Run({"wait", "--timeout-s=0"}).err, HasSubstr("no decode worker is configured"));
}

TEST(WaitWithoutService, TellsThatTheRouterIsMissing) {
  const Result result = RunWords({"wait", "--timeout-s=0", "--address=127.0.0.1:1"});
  EXPECT_EQ(result.code, kExitOther);
  EXPECT_THAT(result.err, HasSubstr("router 127.0.0.1:1: UNAVAILABLE"));
}

TEST_F(CommandsTest, ChatKeepsTheConversation) {
  const Result result =
      Run({"chat", "--system=s", "--max-tokens=2"}, "one\n\n/set temperature 0.5\ntwo\n/stats\n/exit\nthree\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "AB\nAB\n");
  ASSERT_EQ(service_.requests().size(), 2u) << "nothing after /exit";
  const v1::Chat chat = LastRequest().chat();
  ASSERT_EQ(chat.messages_size(), 4);
  EXPECT_EQ(chat.messages(2).role(), "assistant");
  EXPECT_EQ(chat.messages(2).content(), "AB");
  EXPECT_EQ(chat.messages(3).content(), "two");
  EXPECT_EQ(LastRequest().sampling().temperature(), 0.5f);
  EXPECT_THAT(result.err, HasSubstr("conversation: 2 answers, 4 tokens\n"));
}

TEST_F(CommandsTest, ChatSurvivesMistakesAndFailures) {
  const Result result =
      Run({"chat"}, "/set temperature warm\n/set nonsense 1\n/set execution fast\n/what\nbad \xFF\n/help\nfine\n");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("'warm' is not a value for temperature"));
  EXPECT_THAT(result.err, HasSubstr("'nonsense' cannot be set"));
  EXPECT_THAT(result.err, HasSubstr("none of split, local, no-cache"));
  EXPECT_THAT(result.err, HasSubstr("not understood: \"/what\""));
  EXPECT_THAT(result.err, HasSubstr("the message is not valid UTF-8"));
  EXPECT_THAT(result.err, HasSubstr("/stats"));
  EXPECT_EQ(result.out, "ABCD\n");
}

}  // namespace
}  // namespace kvrelay::cli
