#include "common/sampling/sequence_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrelay::sampling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kVocabulary = 64;

TEST(SelectableIds, AreTheAllowedWithoutTheBanned) {
  EXPECT_THAT(SelectableIds({}, {}), ElementsAre(kAllIds));
  EXPECT_THAT(SelectableIds({}, {4, 0, 5, 4, -1, INT32_MAX}), ElementsAre(IdRange{1, 4}, IdRange{6, INT32_MAX}));
  EXPECT_THAT(SelectableIds({9, 3, 4, 5, 3}, {}), ElementsAre(IdRange{3, 6}, IdRange{9, 10}));
  EXPECT_THAT(SelectableIds({9, 3, 4, 5, -7}, {4, 8}), ElementsAre(IdRange{3, 4}, IdRange{5, 6}, IdRange{9, 10}));
  EXPECT_THAT(SelectableIds({1, 2}, {2, 1}), IsEmpty());
}

TEST(RangesOfMask, AreTheSetBits) {
  std::vector<IdRange> ranges = {kAllIds};
  RangesOfMask({0, 0, 0}, 96, &ranges);
  EXPECT_THAT(ranges, IsEmpty());
  RangesOfMask({0x80000001u, 0x00000003u, 0, 0x00000006u}, 100, &ranges);
  EXPECT_THAT(ranges, ElementsAre(IdRange{0, 1}, IdRange{31, 34}, IdRange{97, 99}));
  RangesOfMask({~0u, ~0u}, 33, &ranges);
  EXPECT_THAT(ranges, ElementsAre(IdRange{0, 33}));
}

// Texts of which each token is greater than the one before; complete from the third on.
class Ascending final : public OutputGrammar {
 public:
  absl::StatusOr<std::unique_ptr<OutputGrammar>> Copy() const override { return std::make_unique<Ascending>(*this); }
  absl::Status Mask(absl::Span<uint32_t> words) override {
    for (uint32_t& word : words) word = 0;
    for (int32_t id = last_ + 1; id < 64; ++id) words[id / 32] |= 1u << (id % 32);
    words[0] = accepted_ >= 3 ? words[0] | 8 : words[0] & ~8u;  // 3 is the end token
    return absl::OkStatus();
  }
  absl::Status Accept(int32_t token) override {
    if (token <= last_) return absl::InvalidArgumentError("does not ascend");
    last_ = token;
    ++accepted_;
    return absl::OkStatus();
  }

 private:
  int32_t last_ = -1;
  int accepted_ = 0;
};

// Logits of a made-up model: a function of the history.
std::vector<float> Logits(const std::vector<int32_t>& history) {
  uint32_t mixed = 1;
  for (const int32_t token : history) mixed = mixed * 31 + static_cast<uint32_t>(token);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = static_cast<float>((mixed = mixed * 1664525 + 1013904223) >> 16) / 16384 - 2;
  return logits;
}

// Goes on with `history` until it has `length` tokens.
std::vector<int32_t> Continue(const SelectionSpec& spec, std::vector<int32_t> history, size_t prompt, size_t length) {
  SequenceSampler sampler(&spec, history, prompt);
  std::vector<float> scores;
  while (history.size() < length) {
    EXPECT_EQ(sampler.next_index(), history.size() - prompt);
    const auto selection = sampler.Select(Logits(history), &scores);
    EXPECT_TRUE(selection.ok()) << selection.status();
    history.push_back(selection->token);
  }
  return history;
}

TEST(SequenceSampler, HoldsTheOutputToItsGrammar) {
  SelectionSpec spec;
  spec.sampling = {.temperature = 1, .seed = 3};
  spec.end_rule = {.eos_ids = {3}, .max_tokens = 40};
  const std::vector<int32_t> prompt = {60, 2};
  auto grammar = std::make_shared<Ascending>();
  spec.grammar = grammar;
  spec.grammar_accepted = prompt.size();
  SequenceSampler sampler(&spec, prompt, prompt.size());
  std::vector<int32_t> history = prompt;
  std::vector<float> scores;
  while (history.back() != 3 || history.size() == prompt.size()) {
    const auto selection = sampler.Select(Logits(history), &scores);
    ASSERT_TRUE(selection.ok()) << selection.status();
    history.push_back(selection->token);
    if (selection->token == 3) break;
  }
  ASSERT_GE(history.size(), prompt.size() + 4);
  for (size_t i = prompt.size() + 1; i + 1 < history.size(); ++i) EXPECT_GT(history[i], history[i - 1]);
  // Whoever takes over selects the same, whether the grammar has followed the output already or follows it now.
  for (size_t known = prompt.size(); known < history.size(); ++known) {
    for (const bool followed : {false, true}) {
      SelectionSpec later = spec;
      if (followed) {
        auto ahead = std::make_shared<Ascending>();
        for (size_t i = prompt.size(); i < known; ++i) ASSERT_TRUE(ahead->Accept(history[i]).ok());
        later.grammar = ahead;
        later.grammar_accepted = known;
      }
      const std::vector<int32_t> begun(history.begin(), history.begin() + static_cast<ptrdiff_t>(known));
      EXPECT_EQ(Continue(later, begun, prompt.size(), history.size()), history);
    }
  }
  // A history that does not fit is told at the first selection.
  const std::vector<int32_t> wrong = {60, 2, 9, 8};
  SequenceSampler lost(&spec, wrong, prompt.size());
  EXPECT_THAT(std::string(lost.Select(Logits(wrong), &scores).status().message()), HasSubstr("does not ascend"));
}

SelectionSpec EveryOption() {
  SelectionSpec spec;
  spec.sampling = {.temperature = 0.7f, .top_k = 30, .top_p = 0.9f, .min_p = 0.02f, .seed = 5};
  spec.logit_options = {
      .repetition_penalty = 1.2f, .presence_penalty = 0.4f, .frequency_penalty = 0.3f, .bias = {{7, 1.5f}, {8, -3}}};
  for (int32_t id = 3; id < kVocabulary; id += 2) spec.allowed_ids.push_back(id);
  spec.end_rule = {.eos_ids = {3}, .stop_ids = {5}, .max_tokens = 40, .min_tokens = 20};
  return spec;
}

TEST(SequenceSampler, GoesOnAnywhereWithTheSameTokens) {
  for (const float temperature : {0.0f, 0.7f}) {
    SelectionSpec spec = EveryOption();
    spec.sampling.temperature = temperature;
    ASSERT_TRUE(Validate(spec, kVocabulary).ok());
    const std::vector<int32_t> prompt = {9, 10, 9};
    const std::vector<int32_t> whole = Continue(spec, prompt, prompt.size(), 43);
    for (size_t i = prompt.size(); i < whole.size(); ++i) {
      EXPECT_EQ(whole[i] % 2, 1) << "only odd ids are allowed";
      EXPECT_TRUE(i >= prompt.size() + 20 || (whole[i] != 3 && whole[i] != 5)) << "no end before min_tokens";
      EXPECT_EQ(Continue(spec, {whole.begin(), whole.begin() + i}, prompt.size(), 43), whole) << "resumed at " << i;
    }
  }
}

TEST(SequenceSampler, WhatIsPromptAndWhatIsOutputMatters) {
  SelectionSpec spec;
  spec.logit_options.presence_penalty = 2;
  const std::vector<int32_t> history = {1, 2, 3, 4};
  std::vector<float> logits(kVocabulary), scores;
  logits[2] = 1;
  logits[3] = 0.5f;
  EXPECT_EQ(SequenceSampler(&spec, history, 4).Select(logits, &scores)->token, 2);
  EXPECT_EQ(SequenceSampler(&spec, history, 2).Select(logits, &scores)->token, 2);
  EXPECT_EQ(SequenceSampler(&spec, history, 1).Select(logits, &scores)->token, 0);
}

TEST(SequenceSampler, LogprobsAreOfTheRawLogits) {
  SelectionSpec spec, plain;
  spec.logit_options.bias = {{4, 100}};
  spec.logprobs = plain.logprobs = kVocabulary;
  const std::vector<float> logits = Logits({1});
  std::vector<float> scores;
  const auto biased = *SequenceSampler(&spec, {1}, 1).Select(logits, &scores);
  const auto raw = *SequenceSampler(&plain, {1}, 1).Select(logits, &scores);
  EXPECT_EQ(biased.token, 4);
  EXPECT_NE(raw.token, 4);
  ASSERT_EQ(biased.top.size(), raw.top.size());
  for (size_t i = 0; i < raw.top.size(); ++i) {
    EXPECT_EQ(biased.top[i].id, raw.top[i].id);
    EXPECT_EQ(biased.top[i].logprob, raw.top[i].logprob);
    EXPECT_TRUE(raw.top[i].id != 4 || biased.logprob == raw.top[i].logprob);
  }
}

TEST(ValidateSelectionSpec, AllowedIdsMustLeaveSomething) {
  SelectionSpec spec;
  spec.allowed_ids = {3, 5, 5};
  spec.end_rule = {.eos_ids = {3}, .stop_ids = {5}, .max_tokens = 9, .min_tokens = 2};
  const absl::Status none = Validate(spec, kVocabulary);
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.message()), HasSubstr("allowed_token_ids are all end tokens"));
  spec.end_rule.min_tokens = 0;
  EXPECT_TRUE(Validate(spec, kVocabulary).ok());
  spec.end_rule.min_tokens = 2;
  spec.allowed_ids.push_back(kVocabulary - 1);
  EXPECT_TRUE(Validate(spec, kVocabulary).ok());
  for (const int32_t outside : {-1, kVocabulary}) {
    spec.allowed_ids.back() = outside;
    EXPECT_THAT(std::string(Validate(spec, kVocabulary).message()), HasSubstr("allowed_token_ids has"));
  }
}

}  // namespace
}  // namespace kvrelay::sampling
