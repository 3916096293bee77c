// generate and run against a service on loopback, and what all commands share: usage, help, exit codes.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cli/exit_code.h"
#include "tests/cli/app_fixture.h"

namespace kvrelay::cli {
namespace {

using ::testing::HasSubstr;

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
  const Result result = Run({"generate",
                             "--max-tokens=5",
                             "--min-tokens=2",
                             "--temperature=0.7",
                             "--top-k=40",
                             "--top-p=0.9",
                             "--min-p=0.05",
                             "--seed=18446744073709551615",
                             "--stop=a,b",
                             "--stop",
                             "c",
                             "--stop-token-ids=1,2",
                             "--ignore-eos",
                             "--include-stop",
                             "--include-control",
                             "--truncate-prompt-tokens=9",
                             "--execution=no-cache",
                             "--logprobs=2",
                             "--request-id=me",
                             "--model=fake",
                             "--repetition-penalty=1.5",
                             "--presence-penalty=-1",
                             "--frequency-penalty=0.5",
                             "--logit-bias=5:-100,7:2.5",
                             "--allowed-token-ids=5,7",
                             "--token-ids=7,8,9"});
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
  expected.mutable_sampling()->set_repetition_penalty(1.5f);
  expected.mutable_sampling()->set_presence_penalty(-1);
  expected.mutable_sampling()->set_frequency_penalty(0.5f);
  (*expected.mutable_sampling()->mutable_logit_bias())[5] = -100;
  (*expected.mutable_sampling()->mutable_logit_bias())[7] = 2.5f;
  expected.mutable_sampling()->add_allowed_token_ids(5);
  expected.mutable_sampling()->add_allowed_token_ids(7);
  expected.add_stop("a,b");
  expected.add_stop("c");
  expected.add_stop_token_ids(1);
  expected.add_stop_token_ids(2);
  expected.set_ignore_eos(true);
  expected.set_include_stop(true);
  expected.set_include_control(true);
  expected.set_truncate_prompt_tokens(9);
  expected.set_execution(v1::EXECUTION_NO_CACHE);
  expected.set_logprobs(2);
  EXPECT_EQ(LastRequest().DebugString(), expected.DebugString());
}

TEST_F(AppTest, AnOutputFormatIsTextOrAFile) {
  ASSERT_EQ(Run({"generate", "abc", "--regex", "a|@b"}).code, 0);
  EXPECT_EQ(LastRequest().regex(), "a|@b");
  ASSERT_EQ(Run({"generate", "abc", "--json-schema", R"({"type": "object"})"}).code, 0);
  EXPECT_EQ(LastRequest().json_schema(), R"({"type": "object"})");
  const std::string path = ::testing::TempDir() + "/grammar.lark";
  std::ofstream(path) << "start: \"x\"\n";
  ASSERT_EQ(Run({"generate", "abc", "--lark-grammar", "@" + path}).code, 0);
  EXPECT_EQ(LastRequest().lark_grammar(), "start: \"x\"\n");
  const struct {
    std::vector<std::string> arguments;
    std::string words;
  } bad[] = {{{"generate", "abc", "--lark-grammar", "@/no/such/file"}, "/no/such/file"},
             {{"generate", "abc", "--regex", "a", "--json-schema", "{}"}, "only one"},
             {{"generate", "abc", "--regex", "\xff"}, "UTF-8"}};
  for (const auto& [arguments, words] : bad) {
    const auto result = Run(arguments);
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.err, ::testing::HasSubstr(words));
  }
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

TEST_F(AppTest, BiasIsAnIdAndANumber) {
  for (const char* bad : {"5", "5:", ":1", "x:1", "-1:1", "5:x"}) {
    const Result result = Run({"generate", "a", "--logit-bias", bad});
    EXPECT_NE(result.code, 0) << bad;
    EXPECT_THAT(result.err, HasSubstr("--logit-bias takes ID:BIAS")) << bad;
  }
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

}  // namespace
}  // namespace kvrelay::cli
