// Streams that break: the client goes on at another router, and prints what an undisturbed stream prints.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/exit_code.h"
#include "tests/cli/app_fixture.h"

namespace kvrelay::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kNobody[] = "127.0.0.1:1";

class ResumeTest : public ::testing::Test {
 protected:
  Result Run(std::vector<std::string> words) {
    words.push_back(absl::StrCat("--address=", first_.address(), ",", second_.address()));
    return RunWords(std::move(words));
  }

  // Breaks the stream of `words` at every event once, with the whole output as it was undisturbed.
  void ExpectUndisturbedOutput(const std::vector<std::string>& words, size_t events) {
    const Result undisturbed = Run(words);
    ASSERT_EQ(undisturbed.code, 0) << undisturbed.err;
    for (size_t broken = 0; broken <= events; ++broken) {
      SCOPED_TRACE(absl::StrCat(words[1], " broken after ", broken, " events"));
      first_.BreakAfter(broken);
      const Result result = Run(words);
      EXPECT_EQ(result.code, 0) << result.err;
      EXPECT_EQ(result.out, undisturbed.out);
    }
  }

  FakeService first_, second_;
};

TEST_F(ResumeTest, AnywhereInsideCharactersAndStopStrings) {
  struct Case {
    std::string text;
    std::vector<std::string> options;
  };
  const Case kCases[] = {
      {"Zo\u00EB \u65E5\u672C \U0001F600.", {}},
      {"Zo\u00EB \u65E5\u672C \U0001F600.", {"--max-tokens=8"}},  // ends inside a character
      {"one STO, two ST STOP three", {"--stop=STOP", "--stop=OP!"}},
      {"ends with what may begin it: STO", {"--stop=STOP"}},
  };
  for (const Case& c : kCases) {
    for (const char* format : {"--quiet", "--logprobs=1"}) {
      std::vector<std::string> words = {"generate", "say:" + c.text, format};
      words.insert(words.end(), c.options.begin(), c.options.end());
      ExpectUndisturbedOutput(words, c.text.size() + 2);
    }
  }
}

TEST_F(ResumeTest, BeforeStartedTheRequestIsNew) {
  first_.BreakAfter(0);
  const Result result = Run({"generate", "abc", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(Lines(result.out).size(), 6u) << "nothing is told of, nothing had begun";
  EXPECT_FALSE(second_.requests().back().has_resume());
}

TEST_F(ResumeTest, BeforeTheFirstTokenTheSeedIsKept) {
  first_.BreakAfter(1);
  EXPECT_EQ(Run({"generate", "abc", "--request-id=me"}).out, "ABCD\n");
  const v1::GenerateRequest request = second_.requests().back();
  EXPECT_EQ(request.resume().seed(), 18446744073709551615u) << "the one drawn by the first";
  EXPECT_THAT(request.resume().token_ids(), IsEmpty());
  EXPECT_EQ(request.request_id(), "me");
  EXPECT_EQ(request.text(), "abc") << "the rest is as it was";
}

TEST_F(ResumeTest, SendsAllTokensButTheLast) {
  first_.BreakAfter(4);
  EXPECT_EQ(Run({"run", "abc"}).out, "ABCD\n");
  EXPECT_THAT(second_.requests().back().resume().token_ids(), ElementsAre('A', 'B'));
}

TEST_F(ResumeTest, SendsTheTokenWithEveryCall) {
  const std::string path = ::testing::TempDir() + "/resume_test.token";
  std::ofstream(path) << "s3cret\n";
  first_.BreakAfter(3);
  EXPECT_EQ(Run({"generate", "abc", "--token-file", path}).out, "ABCD\n");
  for (const FakeService* router : {&first_, &second_}) {
    EXPECT_THAT(router->authorizations(), ElementsAre("Bearer s3cret"));
  }
  std::filesystem::remove(path);
}

TEST_F(ResumeTest, AgainAndAgainInTurn) {
  for (int i = 0; i < 4; ++i) {  // `started`, a repeated token, a new one
    first_.BreakAfter(3);
    second_.BreakAfter(3);
  }
  const Result result = Run({"generate", "abc", "--json", "--max-tokens=9"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<nlohmann::json> lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 1u + 9 + 8 + 1);
  std::string text;
  for (const nlohmann::json& line : lines) {
    if (line.contains("token")) text += line["token"]["text"];
  }
  EXPECT_EQ(text, "ABCDEFGHI");
  std::erase_if(lines, [](const nlohmann::json& line) { return !line.contains("resumed"); });
  EXPECT_EQ(lines.back()["resumed"]["count"], 8);
  EXPECT_EQ(lines.back()["resumed"]["address"], first_.address());
  EXPECT_EQ(lines.back()["resumed"]["tokens"], 9) << "only the end was missing";
}

TEST_F(ResumeTest, AtTheSameRouterIfThereIsNoOther) {
  first_.BreakAfter(3);
  const Result result = RunWords({"generate", "abc", "--server", first_.address()});
  EXPECT_EQ(result.out, "ABCD\n");
  EXPECT_THAT(result.err, HasSubstr("| 4 tokens, "));
  EXPECT_THAT(result.err, HasSubstr(" | resumed 1 time, times and rates since then\n"));
}

TEST_F(ResumeTest, PastRoutersThatCannotBeReached) {
  const Result result = RunWords({"generate", "abc", "--server", kNobody, "--server", first_.address()});
  EXPECT_EQ(result.out, "ABCD\n");
  EXPECT_THAT(RunWords({"tokenize", "a", "--server", absl::StrCat(kNobody, ",", first_.address())}).out,
              HasSubstr("\"a\""));
}

TEST_F(ResumeTest, ATurnOfAChat) {
  first_.BreakAfter(3);
  std::vector<std::string> words = {"chat", absl::StrCat("--address=", first_.address(), ",", second_.address())};
  const Result result = RunWords(words, "one\ntwo\n");
  EXPECT_EQ(result.out, "ABCD\nABCD\n");
  EXPECT_THAT(result.err, HasSubstr("resumed 1 time"));
  EXPECT_EQ(second_.requests().size(), 2u) << "the next turn stays where the last one ended";
}

TEST_F(ResumeTest, TraceNumbersItsRunsThrough) {
  first_.BreakAfter(5);  // two tokens with their runs
  const Result result = Run({"trace", "abc", "--max-tokens=3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\n4 (decode)"));
  EXPECT_THAT(result.out, HasSubstr("resumed 1 time"));
}

TEST_F(ResumeTest, ARouterOfAnotherModelIsFoundOut) {
  first_.BreakAfter(3);
  second_.BreakTokens();
  const Result result = Run({"generate", "abc"});
  EXPECT_EQ(result.code, kExitOther);
  EXPECT_EQ(result.out, "AB\n");
  EXPECT_THAT(result.err, HasSubstr("DATA_LOSS after 2 tokens had arrived: another router goes on with token 1 = 122 "
                                    "instead of 66"));
}

TEST_F(ResumeTest, WithoutRoomOnlyABrokenStreamTriesAgain) {
  second_.BreakAfter(0, grpc::StatusCode::RESOURCE_EXHAUSTED);
  first_.BreakAfter(3);
  EXPECT_EQ(Run({"generate", "abc"}).out, "ABCD\n");
  first_.BreakAfter(0, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Run({"generate", "abc"}).code, kExitExhausted);
}

TEST_F(ResumeTest, OtherErrorsEndTheStream) {
  first_.BreakAfter(3, grpc::StatusCode::INTERNAL);
  EXPECT_EQ(Run({"generate", "abc"}).code, kExitOther);
  EXPECT_THAT(second_.requests(), IsEmpty());
}

TEST_F(ResumeTest, TheDeadlineHoldsForAllCallsTogether) {
  for (int i = 0; i < 40; ++i) first_.BreakAfter(2);
  const Result result = RunWords({"generate", "abc", "--deadline-ms=300", "--address", first_.address()});
  EXPECT_EQ(result.code, kExitDeadline);
  EXPECT_EQ(result.out, "A\n");
}

// A stream of both services that never gets past its second token.
TEST_F(ResumeTest, GivesUpAfterSoManyRoundsWithoutANewToken) {
  for (int i = 0; i < 20; ++i) {
    first_.BreakAfter(i == 0 ? 3 : 2);
    second_.BreakAfter(2);
  }
  Interrupt interrupt;
  Client client({.addresses = {first_.address(), second_.address()}}, 0, &interrupt,
                {.rounds = 4, .first_pause = absl::Milliseconds(1)});
  v1::GenerateRequest request;
  request.set_text("abc");
  const CallEnd end = client.Generate(request, [](const v1::GenerateResponse&) { return true; });
  EXPECT_EQ(end.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(end.tokens, 2u);
  EXPECT_EQ(first_.requests().size(), 4u);
  EXPECT_EQ(second_.requests().size(), 4u);
}

TEST(ResumeWithoutService, ANewRequestIsGivenUpSoon) {
  const Result result = RunWords({"generate", "abc", "--address", absl::StrCat(kNobody, ",127.0.0.1:2")});
  EXPECT_EQ(result.code, kExitUnavailable);
  EXPECT_THAT(result.err, HasSubstr("Is the router running at 127.0.0.1:1 or 127.0.0.1:2?"));
}

}  // namespace
}  // namespace kvrelay::cli
