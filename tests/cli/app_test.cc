// The commands, run in this process against a service on loopback.
#include "cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/exit_code.h"
#include "tests/cli/fake_service.h"

namespace kvrelay::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int code;
  std::string out;
  std::string err;
};

// Runs `kvrelay words...`.
Result RunWords(std::vector<std::string> words, const std::string& input = "") {
  std::vector<const char*> argv = {"kvrelay"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  Interrupt interrupt;
  const Console console{in, out, err};
  const int code = RunApp(static_cast<int>(argv.size()), argv.data(), console, &interrupt);
  return {code, out.str(), err.str()};
}

class AppTest : public ::testing::Test {
 protected:
  Result Run(std::vector<std::string> words, const std::string& input = "") {
    words.push_back("--address=" + service_.address());
    return RunWords(std::move(words), input);
  }

  v1::GenerateRequest LastRequest() const { return service_.requests().back(); }

  FakeService service_;
};

std::vector<nlohmann::json> Lines(const std::string& out) {
  std::vector<nlohmann::json> lines;
  for (const auto line : absl::StrSplit(out, '\n', absl::SkipEmpty())) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST_F(AppTest, GenerateStreamsTextAndStatistics) {
  const Result result = Run({"generate", "abc"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "ABCD\n");
  EXPECT_EQ(
      result.err,
      "3 prompt tokens | prefill 12.3 ms | 69,120 KV bytes shipped | 4 tokens, decode 100.0 tokens/s | first token "
      "20.0 ms | split (asked for)\n");
  EXPECT_EQ(LastRequest().text(), "abc");
}

TEST_F(AppTest, QuietLeavesTheStatisticsOut) {
  const Result result = Run({"run", "--quiet", "hello"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(AppTest, EveryOptionReachesTheRequest) {
  const Result result = Run({"generate", "--max-tokens=5", "--min-tokens=2", "--temperature=0.7", "--top-k=40",
                             "--top-p=0.9", "--min-p=0.05", "--seed=18446744073709551615", "--stop=a,b", "--stop", "c",
                             "--stop-token-ids=1,2", "--ignore-eos", "--execution=no-cache", "--logprobs=2",
                             "--request-id=me", "--model=fake", "--token-ids=7,8,9"});
  EXPECT_EQ(result.code, 0) << result.err;
  v1::GenerateRequest expected;
  expected.set_request_id("me");
  expected.set_model("fake");
  for (const uint32_t id : {7, 8, 9}) expected.mutable_token_ids()->add_ids(id);
  expected.set_max_tokens(5);
  expected.set_min_tokens(2);
  expected.mutable_sampling()->set_temperature(0.7f);
  expected.mutable_sampling()->set_top_k(40);
  expected.mutable_sampling()->set_top_p(0.9f);
  expected.mutable_sampling()->set_min_p(0.05f);
  expected.mutable_sampling()->set_seed(18446744073709551615u);
  expected.add_stop("a,b");
  expected.add_stop("c");
  expected.add_stop_token_ids(1);
  expected.add_stop_token_ids(2);
  expected.set_ignore_eos(true);
  expected.set_execution(v1::EXECUTION_NO_CACHE);
  expected.set_logprobs(2);
  EXPECT_EQ(LastRequest().DebugString(), expected.DebugString());
}

TEST_F(AppTest, OptionsNotGivenAreLeftToTheService) {
  ASSERT_EQ(Run({"generate", "abc"}).code, 0);
  EXPECT_FALSE(LastRequest().has_max_tokens());
  EXPECT_FALSE(LastRequest().sampling().has_temperature());
  EXPECT_FALSE(LastRequest().sampling().has_top_p());
  EXPECT_FALSE(LastRequest().sampling().has_seed());
}

TEST_F(AppTest, TheServiceJudgesRangesNotTheClient) {
  EXPECT_EQ(Run({"generate", "a", "--temperature=nan", "--top-p=2", "--max-tokens=0"}).code, 0);
  EXPECT_TRUE(std::isnan(LastRequest().sampling().temperature()));
  EXPECT_EQ(LastRequest().sampling().top_p(), 2);
  EXPECT_TRUE(LastRequest().has_max_tokens());
  EXPECT_EQ(LastRequest().max_tokens(), 0u);
}

TEST_F(AppTest, EmptyPromptIsSent) {
  Run({"generate", ""}, "not read");
  EXPECT_TRUE(LastRequest().has_text());
  EXPECT_EQ(LastRequest().text(), "");
}

TEST_F(AppTest, RunUsesTheChatTemplate) {
  ASSERT_EQ(Run({"run", "--system", "be brief", "hi"}).code, 0);
  ASSERT_EQ(LastRequest().chat().messages_size(), 2);
  EXPECT_EQ(LastRequest().chat().messages(0).role(), "system");
  EXPECT_EQ(LastRequest().chat().messages(0).content(), "be brief");
  EXPECT_EQ(LastRequest().chat().messages(1).role(), "user");
  EXPECT_EQ(LastRequest().chat().messages(1).content(), "hi");
}

TEST_F(AppTest, PromptFromStandardInput) {
  ASSERT_EQ(Run({"generate"}, "a\nb\n").code, 0);
  EXPECT_EQ(LastRequest().text(), "a\nb\n") << "byte for byte";
  ASSERT_EQ(Run({"generate", "-"}, "x").code, 0);
  EXPECT_EQ(LastRequest().text(), "x");
  ASSERT_EQ(Run({"run"}, "a\n\n").code, 0);
  EXPECT_EQ(LastRequest().chat().messages(0).content(), "a\n") << "less one newline";
}

TEST_F(AppTest, PromptsThatCannotBeSent) {
  const Result broken = Run({"generate", "ab\xFF"});
  EXPECT_EQ(broken.code, kExitUsage);
  EXPECT_THAT(broken.err, HasSubstr("the prompt is not valid UTF-8: see byte 2"));
  const Result large = Run({"generate"}, std::string((1 << 20) + 1, 'a'));
  EXPECT_EQ(large.code, kExitUsage);
  EXPECT_THAT(large.err, HasSubstr("longer than 1048576 bytes"));
  EXPECT_EQ(Run({"generate", "a", "--stop=\xC3"}).code, kExitUsage);
  EXPECT_EQ(Run({"run", "a", "--system=\xC3"}).code, kExitUsage);
  EXPECT_TRUE(service_.requests().empty());
}

TEST_F(AppTest, LogprobsShowALineForEachToken) {
  const Result result = Run({"generate", "abc", "--logprobs=2", "--max-tokens=2"});
  EXPECT_EQ(result.out,
            "x0  65  \"A\"  -0.1 | 65 \"A\" -0.1 | 66 \"B\" -0.333333\n"
            "x1  66  \"B\"  -0.333333 | 66 \"B\" -0.1 | 67 \"C\" -0.333333\n");
}

TEST_F(AppTest, JsonHasEveryFieldAndFloatsThatRoundTrip) {
  const Result result = Run({"generate", "abc", "--json", "--logprobs=1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  const std::vector<nlohmann::json> lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 6u) << result.out;
  EXPECT_EQ(lines[0]["started"]["seed"], "18446744073709551615") << "64-bit integers are strings";
  EXPECT_EQ(lines[0]["started"]["placement"]["execution"], "EXECUTION_SPLIT");
  EXPECT_TRUE(lines[0]["started"].contains("prompt_token_ids")) << "empty lists are there too";
  const float expected[] = {-0.1f, -1.0f / 3, -1e-30f, -87.33654f};
  for (int i = 0; i < 4; ++i) {
    const nlohmann::json& token = lines[i + 1]["token"];
    EXPECT_EQ(token["index"], i) << "zero is printed as well";
    EXPECT_EQ(std::bit_cast<uint32_t>(token["logprob"].get<float>()), std::bit_cast<uint32_t>(expected[i]));
    EXPECT_EQ(lines[i + 1]["positions"]["kv_ready"], 3 + i);
    EXPECT_EQ(lines[i + 1]["positions"]["computed"], absl::StrCat(3 + i));
  }
  EXPECT_EQ(lines[5]["finished"]["reason"], "FINISH_REASON_LENGTH");
  EXPECT_EQ(lines[5]["finished"]["timings"]["first_token"], "0.020s");
  EXPECT_EQ(lines[5]["finished"]["kv_bytes_shipped"], "69120");
  EXPECT_EQ(lines[5]["finished"]["replans"], 0);
}

TEST_F(AppTest, ExitCodesFollowTheStatus) {
  const std::pair<grpc::StatusCode, int> kCases[] = {
      {grpc::INVALID_ARGUMENT, 2},   {grpc::NOT_FOUND, 3},         {grpc::UNAVAILABLE, 4},
      {grpc::RESOURCE_EXHAUSTED, 5}, {grpc::DEADLINE_EXCEEDED, 6}, {grpc::FAILED_PRECONDITION, 1},
      {grpc::DATA_LOSS, 1},          {grpc::INTERNAL, 1},          {grpc::CANCELLED, 1}};
  for (const auto& [status, code] : kCases) {
    const Result result = Run({"generate", absl::StrCat("fail:", static_cast<int>(status))});
    EXPECT_EQ(result.code, code);
    EXPECT_THAT(result.err, HasSubstr(CodeName(status)));
    EXPECT_THAT(result.err, HasSubstr("the fake was told to fail"));
    EXPECT_THAT(result.err, HasSubstr("\n  ")) << "what to do";
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(AppTest, StreamLostHalfwayTellsHowMuchCame) {
  const Result result = Run({"generate", "lost"});
  EXPECT_EQ(result.code, kExitUnavailable);
  EXPECT_EQ(result.out, "ABC\n");
  EXPECT_THAT(result.err, HasSubstr("UNAVAILABLE after 3 tokens had arrived: the connection was lost"));
}

TEST_F(AppTest, StreamWithoutFinishedIsNotASuccess) {
  const Result result = Run({"generate", "unfinished"});
  EXPECT_EQ(result.code, kExitOther);
  EXPECT_THAT(result.err, HasSubstr("without its last message"));
}

TEST_F(AppTest, DeadlineEndsTheCall) { EXPECT_EQ(Run({"generate", "hang", "--deadline-ms=100"}).code, kExitDeadline); }

TEST(AppWithoutService, CannotConnect) {
  const Result result = RunWords({"status", "--address=127.0.0.1:1"});
  EXPECT_EQ(result.code, kExitUnavailable);
  EXPECT_THAT(result.err, HasSubstr("Is the router running at 127.0.0.1:1?"));
}

TEST(AppWithoutService, UsageErrors) {
  const std::vector<std::string> kCases[] = {{},
                                             {"nonsense"},
                                             {"generate", "--nonsense", "a"},
                                             {"generate", "a", "b"},
                                             {"generate", "a", "--max-tokens=-1"},
                                             {"generate", "a", "--max-tokens=4294967296"},
                                             {"generate", "a", "--max-tokens=many"},
                                             {"generate", "a", "--seed=18446744073709551616"},
                                             {"generate", "a", "--temperature=warm"},
                                             {"generate", "a", "--execution=fast"},
                                             {"generate", "a", "--token-ids=1,2"},
                                             {"generate", "--token-ids=1,x"},
                                             {"generate", "a", "--deadline-ms=-1"},
                                             {"trace", "a", "--system=b"},
                                             {"trace", "a", "--compare", "--execution=split"},
                                             {"detokenize"},
                                             {"detokenize", "-1"},
                                             {"wait", "--timeout-s=-1"},
                                             {"status", "--address=nowhere"},
                                             {"status", "--address=host:0"},
                                             {"status", "--address=host:65536"},
                                             {"status", "--address=:80"}};
  for (std::vector<std::string> words : kCases) {
    const Result result = RunWords(words);
    EXPECT_EQ(result.code, kExitUsage) << ::testing::PrintToString(words);
    EXPECT_NE(result.err, "") << ::testing::PrintToString(words);
    EXPECT_EQ(result.out, "");
  }
}

TEST(AppWithoutService, HelpAndVersion) {
  for (const char* command :
       {"generate", "run", "chat", "trace", "tokenize", "detokenize", "model", "status", "wait"}) {
    const Result result = RunWords({command, "--help"});
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, HasSubstr("--address"));
    EXPECT_THAT(result.out, HasSubstr("130  cancelled by Ctrl-C"));
  }
  EXPECT_THAT(RunWords({"--help"}).out, HasSubstr("trace"));
  const Result version = RunWords({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr("kvrelay 0."));
}

TEST_F(AppTest, TraceShowsNamesAndTable) {
  const Result result = Run({"trace", "abc", "--execution=no-cache", "--max-tokens=3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  p0 97 \"a\"  p1 98 \"b\"  p2 99 \"c\"\n"));
  EXPECT_THAT(result.out, HasSubstr("3 (decode)   p0 p1 p2 x0 x1  4           0..3        0..4"));
  EXPECT_THAT(result.out, HasSubstr("x2 67 \"C\""));
  EXPECT_THAT(result.out, Not(HasSubstr("\033"))) << "no colours outside a terminal";
  EXPECT_TRUE(LastRequest().trace());
}

TEST_F(AppTest, TraceIsShortByDefault) {
  ASSERT_EQ(Run({"trace", "abc"}).code, 0);
  EXPECT_EQ(LastRequest().max_tokens(), 8u);
}

TEST_F(AppTest, CompareRunsAllThreeWithOneSeed) {
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

TEST_F(AppTest, CompareFailsOnDifferentTokens) {
  service_.BreakNoCache();
  const Result result = Run({"trace", "--compare", "abc"});
  EXPECT_EQ(result.code, kExitOther);
  EXPECT_THAT(result.out, HasSubstr("tokens: DIFFERENT: x1 is 66 in split and 122 in no-cache\n"));
}

TEST_F(AppTest, CompareGoesOnAfterAFailureAndFails) {
  service_.RefuseSplit();
  const Result result = Run({"trace", "--compare", "abc"});
  EXPECT_EQ(result.code, kExitUnavailable);
  EXPECT_THAT(result.err, HasSubstr("no prefill worker is ready"));
  EXPECT_THAT(result.out, HasSubstr("split: failed"));
  EXPECT_THAT(result.out, HasSubstr("identical in local, no-cache; failed: split"));
  EXPECT_THAT(result.out, HasSubstr("prompt: 3 tokens"));
}

TEST_F(AppTest, CompareAsJson) {
  const std::vector<nlohmann::json> lines = Lines(Run({"trace", "--compare", "--json", "abc"}).out);
  ASSERT_EQ(lines.size(), 3 * (2u + 2 * 8) + 1);
  EXPECT_EQ(lines.back()["comparison"]["identical"], true);
  EXPECT_EQ(lines.back()["comparison"]["total_ms"]["local"], 50.0);
}

TEST_F(AppTest, Tokenize) {
  EXPECT_EQ(Run({"tokenize", "a\n"}).out,
            "position  id  text\n"
            "--------  --  ----\n"
            "       0  97  \"a\"\n"
            "       1  10  \"\\n\"\n");
  EXPECT_EQ(Lines(Run({"tokenize", "--json", "a"}).out)[0], nlohmann::json::parse(R"({"ids":[97],"pieces":["a"]})"));
  EXPECT_THAT(Run({"tokenize", "--chat", "hi"}).out, HasSubstr("\"<\""));
}

TEST_F(AppTest, Detokenize) {
  EXPECT_EQ(Run({"detokenize", "72", "105"}).out, "Hi\n");
  EXPECT_EQ(Run({"detokenize", "72,105,200"}).out, "Hi\xEF\xBF\xBD\n");
  EXPECT_EQ(Run({"detokenize", "72", "--json"}).out, "{\"text\":\"H\"}\n");
}

TEST_F(AppTest, Model) {
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

TEST_F(AppTest, Status) {
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

TEST_F(AppTest, WaitEndsWhenADecodeWorkerIsReady) {
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

TEST(AppWithoutService, WaitTellsThatTheRouterIsMissing) {
  const Result result = RunWords({"wait", "--timeout-s=0", "--address=127.0.0.1:1"});
  EXPECT_EQ(result.code, kExitOther);
  EXPECT_THAT(result.err, HasSubstr("router 127.0.0.1:1: UNAVAILABLE"));
}

TEST_F(AppTest, ChatKeepsTheConversation) {
  const Result result =
      Run({"chat", "--system=s", "--max-tokens=2"}, "one\n\n/set temperature 0.5\ntwo\n/stats\n/exit\nlost\n");
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

TEST_F(AppTest, ChatSurvivesMistakesAndFailures) {
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
