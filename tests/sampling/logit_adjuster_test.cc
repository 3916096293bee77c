// Bias and penalties: by hand at the edges, and against transformers and OpenAI's formula on real logits
// (tests/golden/make_option_goldens.py).
#include "common/sampling/logit_adjuster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "common/sampling/sampler.h"
#include "tests/golden/golden_reader.h"
#include "tests/sampling/not_finite.h"

namespace kvrelay::sampling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kLargest = std::numeric_limits<float>::max();

std::vector<float> Adjusted(const LogitOptions& options, const std::vector<int32_t>& prompt,
                            const std::vector<int32_t>& output, const std::vector<float>& logits) {
  std::vector<int32_t> history = prompt;
  history.insert(history.end(), output.begin(), output.end());
  std::vector<float> workspace;
  const auto scores = LogitAdjuster(options, history, prompt.size(), 0).Adjust(logits, &workspace);
  return {scores.begin(), scores.end()};
}

TEST(LogitAdjuster, RepetitionIsOfPromptAndOutputOnce) {
  EXPECT_THAT(Adjusted({.repetition_penalty = 2}, {0, 1, 1}, {2, 2, 2}, {4, -4, 4, -4}), ElementsAre(2, -8, 2, -4));
  EXPECT_THAT(Adjusted({.repetition_penalty = 0.5f}, {0, 1}, {}, {4, -4, 4, -4}), ElementsAre(8, -2, 4, -4));
}

TEST(LogitAdjuster, PresenceAndFrequencyAreOfOutputAlone) {
  EXPECT_THAT(Adjusted({.presence_penalty = 1}, {0, 1}, {1, 2, 2}, {4, 4, 4, 4}), ElementsAre(4, 3, 3, 4));
  EXPECT_THAT(Adjusted({.frequency_penalty = 1}, {0, 1}, {1, 2, 2}, {4, 4, 4, 4}), ElementsAre(4, 3, 2, 4));
  EXPECT_THAT(Adjusted({.presence_penalty = -2, .frequency_penalty = -0.5f}, {0}, {2, 2}, {4, 4, 4}),
              ElementsAre(4, 4, 7));
}

TEST(LogitAdjuster, BiasThenRepetitionThenTheOthers) {
  const LogitOptions options{
      .repetition_penalty = 2, .presence_penalty = 0.25f, .frequency_penalty = 0.5f, .bias = {{2, -6}, {0, 2}}};
  EXPECT_THAT(Adjusted(options, {0}, {2, 2}, {4, 4, 4}), ElementsAre(3, 4, -4 - 1 - 0.25f));
  EXPECT_THAT(Adjusted({.bias = {{1, -100}}}, {1}, {1}, {4, 4}), ElementsAre(4, -96));
}

TEST(LogitAdjuster, NothingToApplyIsNoCopy) {
  const std::vector<float> logits = {1, 2};
  std::vector<float> workspace;
  EXPECT_EQ(LogitAdjuster({}, {0, 1}, 1, 5).Adjust(logits, &workspace).data(), logits.data());
  EXPECT_EQ(LogitAdjuster({.presence_penalty = 1}, {0}, 1, 5).Adjust(logits, &workspace).data(), logits.data());
  EXPECT_TRUE(workspace.empty());
}

TEST(LogitAdjuster, ScoresStayFinite) {
  EXPECT_THAT(Adjusted({.repetition_penalty = 100}, {0, 1}, {}, {kLargest, -kLargest}),
              ElementsAre(kLargest / 100, -kLargest));
  EXPECT_THAT(Adjusted({.repetition_penalty = 1e-30f, .frequency_penalty = -2}, {}, {0, 1}, {kLargest, -kLargest}),
              ElementsAre(kLargest, -kLargest * 1e-30f));
  EXPECT_THAT(Adjusted({.repetition_penalty = std::numeric_limits<float>::denorm_min()}, {0, 1}, {}, {0, -1}),
              ElementsAre(0, -std::numeric_limits<float>::denorm_min()));
}

// One that follows a sequence, and one that is made anew at any point of it, are the same: a re-plan, a move and a
// resume change no bit. Room for what is added was made at the beginning.
TEST(LogitAdjuster, FollowsAsIfMadeAnew) {
  const LogitOptions options{
      .repetition_penalty = 1.3f, .presence_penalty = 0.3f, .frequency_penalty = 0.7f, .bias = {{3, 1.1f}, {40, -2}}};
  std::vector<float> logits(50);
  for (int i = 0; i < 50; ++i) logits[i] = static_cast<float>(i % 7) - 3.1f;
  std::vector<int32_t> history = {5, 9, 5, 30};
  const size_t prompt = history.size();
  LogitAdjuster following(options, history, prompt, 200);
  std::vector<float> a, b;
  for (int step = 0; step < 200; ++step) {
    const auto anew = LogitAdjuster(options, history, prompt, 0).Adjust(logits, &b);
    ASSERT_TRUE(std::ranges::equal(following.Adjust(logits, &a), anew)) << step;
    history.push_back(step * step % 50);
    following.Add(history.back());
  }
}

TEST(ValidateLogitOptions, NamesFieldValueAndRange) {
  constexpr int kVocabulary = 10;
  EXPECT_TRUE(Validate(LogitOptions{}, kVocabulary).ok());
  EXPECT_TRUE(Validate({.repetition_penalty = 100, .presence_penalty = -2, .frequency_penalty = 2, .bias = {{9, 100}}},
                       kVocabulary)
                  .ok());
  const std::pair<LogitOptions, std::vector<std::string>> bad[] = {
      {{.repetition_penalty = 0}, {"repetition_penalty is 0", "above 0 and at most 100"}},
      {{.repetition_penalty = -1}, {"repetition_penalty is -1"}},
      {{.repetition_penalty = 101}, {"repetition_penalty is 101"}},
      {{.repetition_penalty = kNan}, {"repetition_penalty is nan"}},
      {{.repetition_penalty = kInf}, {"repetition_penalty is inf"}},
      {{.presence_penalty = 2.5f}, {"presence_penalty is 2.5", "-2 to 2"}},
      {{.presence_penalty = kNan}, {"presence_penalty is nan"}},
      {{.frequency_penalty = -3}, {"frequency_penalty is -3", "-2 to 2"}},
      {{.frequency_penalty = -kInf}, {"frequency_penalty is -inf"}},
      {{.bias = {{1, 0}, {3, 101}}}, {"logit_bias[3] is 101", "-100 to 100"}},
      {{.bias = {{3, kNan}}}, {"logit_bias[3] is nan"}},
      {{.bias = {{10, 0}}}, {"logit_bias has token id 10", "0 to 9"}},
      {{.bias = {{-1, 0}}}, {"logit_bias has token id -1"}}};
  for (const auto& [options, parts] : bad) {
    const absl::Status status = Validate(options, kVocabulary);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& part : parts) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

class OptionGoldens : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = kvrelay::testing::LoadOptionGoldens();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    cases_ = new std::vector<kvrelay::testing::OptionGolden>(*std::move(loaded));
    ASSERT_GT(cases_->size(), 20u);
  }
  static std::vector<float> ScoresOf(const kvrelay::testing::OptionGolden& golden) {
    return Adjusted({.repetition_penalty = golden.repetition_penalty,
                     .presence_penalty = golden.presence_penalty,
                     .frequency_penalty = golden.frequency_penalty,
                     .bias = golden.bias},
                    golden.prompt, golden.output, golden.logits);
  }
  static int32_t Token(const kvrelay::testing::OptionGolden& golden, absl::Span<const float> scores,
                       const SamplingParams& params, uint64_t position) {
    const std::vector<IdRange> selectable = SelectableIds(golden.allowed, {});
    return Select({.logits = golden.logits, .scores = scores, .selectable = selectable}, params, position, 0)->token;
  }
  static inline std::vector<kvrelay::testing::OptionGolden>* cases_ = nullptr;
};

TEST_F(OptionGoldens, ScoresHaveTheBitsOfTheReference) {
  for (size_t c = 0; c < cases_->size(); ++c) {
    const auto& golden = (*cases_)[c];
    std::vector<float> expected = golden.logits;
    for (const auto& [id, bits] : golden.scores) expected[id] = std::bit_cast<float>(bits);
    const std::vector<float> scores = ScoresOf(golden);
    ASSERT_EQ(scores.size(), expected.size());
    for (int32_t id = 0; id < static_cast<int32_t>(scores.size()); ++id) {
      const bool listed = golden.allowed.empty() || std::ranges::count(golden.allowed, id) > 0;
      EXPECT_TRUE(!listed || scores[id] == expected[id])
          << "case " << c << " id " << id << ": " << scores[id] << " instead of " << expected[id];
    }
    EXPECT_EQ(Token(golden, scores, {}, 0), golden.greedy) << "case " << c;
  }
}

// Draws stay in what the reference's warpers leave of the scores, and meet all that is likely there.
TEST_F(OptionGoldens, DrawsAreOfWhatTheReferenceLeaves) {
  for (size_t c = 0; c < cases_->size(); ++c) {
    const auto& golden = (*cases_)[c];
    const std::vector<float> scores = ScoresOf(golden);
    std::vector<int> seen(scores.size());
    for (uint64_t position = 0; position < 600; ++position)
      ++seen[Token(golden, scores,
                   {.temperature = golden.temperature,
                    .top_k = golden.top_k,
                    .top_p = golden.top_p,
                    .min_p = golden.min_p,
                    .seed = 7},
                   position)];
    for (size_t id = 0; id < seen.size(); ++id) {
      if (!golden.kept.empty() && std::ranges::count(golden.kept, static_cast<int32_t>(id)) == 0) {
        EXPECT_EQ(seen[id], 0) << "case " << c << " id " << id;
      }
    }
    for (const int32_t id : golden.likely) EXPECT_GT(seen[id], 0) << "case " << c << " id " << id;
  }
}

}  // namespace
}  // namespace kvrelay::sampling
