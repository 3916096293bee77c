#include "common/worker/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"
#include "tests/worker/fake_engine.h"
#include "tests/worker/test_client.h"

namespace kvrelay::worker {
namespace {

using ::testing::HasSubstr;

class SpecTest : public ::testing::Test {
 protected:
  SpecTest() {
    context_.engine = &engine_;
    context_.vocabulary = 300;
    context_.eos_ids = {2, 7};
  }
  // The status of a sound spec after one change.
  absl::Status After(const std::function<void(v1::GenerationSpec&)>& change) {
    v1::GenerationSpec spec = kvrelay::testing::MakeSpec(5, 10);
    change(spec);
    return ParseSpec(spec, context_).status();
  }
  kvrelay::testing::FakeEngine engine_;
  WorkerContext context_;
};

TEST_F(SpecTest, TakesASoundSpecOver) {
  v1::GenerationSpec spec = kvrelay::testing::MakeSpec(5, 10);
  spec.set_prompt_length(3);
  spec.add_stop_token_ids(9);
  spec.set_min_tokens(2);
  spec.set_seed(UINT64_MAX);
  spec.set_logprobs(4);
  spec.set_temperature(0.5f);
  EXPECT_EQ(ParseSpec(spec, context_)->logit_options.repetition_penalty, 1);
  spec.set_repetition_penalty(1.5f);
  spec.set_presence_penalty(-1);
  spec.set_frequency_penalty(2);
  (*spec.mutable_logit_bias())[299] = -100;
  spec.add_allowed_token_ids(299);
  spec.add_allowed_token_ids(0);
  const auto parsed = ParseSpec(spec, context_);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->tokens, ::testing::ElementsAre(10, 17, 24, 31, 38));
  EXPECT_EQ(parsed->prompt_length, 3);
  EXPECT_THAT(parsed->end_rule.eos_ids, ::testing::ElementsAre(2, 7));
  EXPECT_THAT(parsed->end_rule.stop_ids, ::testing::ElementsAre(9));
  EXPECT_EQ(parsed->end_rule.max_tokens, 10);
  EXPECT_EQ(parsed->end_rule.min_tokens, 2);
  EXPECT_EQ(parsed->sampling.seed, UINT64_MAX);
  EXPECT_EQ(parsed->logprobs, 4);
  EXPECT_EQ(parsed->logit_options.repetition_penalty, 1.5f);
  EXPECT_EQ(parsed->logit_options.presence_penalty, -1);
  EXPECT_EQ(parsed->logit_options.frequency_penalty, 2);
  EXPECT_THAT(parsed->logit_options.bias, ::testing::ElementsAre(std::pair(299, -100.0f)));
  EXPECT_THAT(parsed->allowed_ids, ::testing::ElementsAre(299, 0));
  spec.set_ignore_eos(true);
  EXPECT_TRUE(ParseSpec(spec, context_)->end_rule.eos_ids.empty());
}

TEST_F(SpecTest, RefusesWhatIsOutsideItsRange) {
  using Change = std::function<void(v1::GenerationSpec&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"no tokens", [](auto& s) { s.clear_token_ids(), s.set_prompt_length(0); }},
      {"id outside", [](auto& s) { s.set_token_ids(4, 300); }},
      {"id that is negative as int32", [](auto& s) { s.set_token_ids(0, UINT32_MAX); }},
      {"prompt longer than ids", [](auto& s) { s.set_prompt_length(6); }},
      {"huge prompt_length", [](auto& s) { s.set_prompt_length(UINT32_MAX); }},
      {"max_tokens 0", [](auto& s) { s.set_max_tokens(0); }},
      {"min above max", [](auto& s) { s.set_min_tokens(11); }},
      {"logprobs", [](auto& s) { s.set_logprobs(21); }},
      {"huge logprobs", [](auto& s) { s.set_logprobs(UINT32_MAX); }},
      {"NaN temperature", [](auto& s) { s.set_temperature(NAN); }},
      {"infinite temperature", [](auto& s) { s.set_temperature(INFINITY); }},
      {"negative temperature", [](auto& s) { s.set_temperature(-1); }},
      {"top_p 2", [](auto& s) { s.set_top_p(2); }},
      {"NaN min_p", [](auto& s) { s.set_min_p(NAN); }},
      {"NaN repetition_penalty", [](auto& s) { s.set_repetition_penalty(NAN); }},
      {"repetition_penalty 0", [](auto& s) { s.set_repetition_penalty(0); }},
      {"infinite presence_penalty", [](auto& s) { s.set_presence_penalty(INFINITY); }},
      {"frequency_penalty 3", [](auto& s) { s.set_frequency_penalty(3); }},
      {"bias of an id outside", [](auto& s) { (*s.mutable_logit_bias())[300] = 1; }},
      {"bias of an id that is negative as int32", [](auto& s) { (*s.mutable_logit_bias())[UINT32_MAX] = 1; }},
      {"NaN bias", [](auto& s) { (*s.mutable_logit_bias())[1] = NAN; }},
      {"10,000 biases",
       [](auto& s) {
         for (uint32_t i = 0; i < 10000; ++i) (*s.mutable_logit_bias())[i] = 1;
       }},
      {"allowed id outside", [](auto& s) { s.add_allowed_token_ids(300); }},
      {"20,000 allowed ids",
       [](auto& s) {
         for (int i = 0; i < 20000; ++i) s.add_allowed_token_ids(1);
       }},
      {"nothing is left to select", [](auto& s) { s.set_min_tokens(1), s.add_allowed_token_ids(7); }},
      {"stop id outside", [](auto& s) { s.add_stop_token_ids(300); }},
      {"10,000 stop ids",
       [](auto& s) {
         for (int i = 0; i < 10000; ++i) s.add_stop_token_ids(1);
       }},
      {"long salt", [](auto& s) { s.set_cache_salt(std::string(65, 's')); }},
      {"more tokens than the context",
       [](auto& s) {
         for (int i = 0; i < 2000; ++i) s.add_token_ids(1);
       }},
  };
  for (const auto& [name, change] : changes) {
    const absl::Status status = After(change);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_FALSE(status.message().empty()) << name;
  }
  EXPECT_TRUE(After([](auto&) {}).ok());
}

TEST_F(SpecTest, AGrammarStandsBehindTheOutputSoFar) {
  const testing::MemoryFile memory(testing::TinyModelBytes({}));
  const auto file = model_file::ModelFile::Open(memory.path());
  ASSERT_TRUE(file.ok()) << file.status();
  auto grammars = text::Grammars::FromFile(**file);
  ASSERT_TRUE(grammars.ok()) << grammars.status();
  GrammarCache cache(*std::move(grammars));
  context_.grammars = &cache;
  const int32_t a = testing::kTinyFirstByte + 'a', b = testing::kTinyFirstByte + 'b';
  const auto spec_with = [&](std::vector<int32_t> output) {
    v1::GenerationSpec spec = kvrelay::testing::MakeSpec(5, 10);
    for (const int32_t token : output) spec.add_token_ids(token);
    spec.set_regex("abab");
    return spec;
  };
  const auto next = [&](const std::vector<int32_t>& output, int32_t token) {
    const auto parsed = ParseSpec(spec_with(output), context_);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (!parsed.ok()) return false;
    EXPECT_EQ(parsed->grammar_accepted, 5 + output.size());
    auto grammar = *parsed->grammar->Copy();
    std::vector<uint32_t> mask(16);
    EXPECT_TRUE(grammar->Mask(absl::MakeSpan(mask)).ok());
    return (mask[token / 32] >> (token % 32) & 1) != 0;
  };
  EXPECT_TRUE(next({}, a));
  EXPECT_FALSE(next({}, b));
  EXPECT_TRUE(next({a}, b));
  EXPECT_FALSE(next({a}, a));
  EXPECT_TRUE(next({a, b}, a));

  EXPECT_THAT(std::string(ParseSpec(spec_with({b}), context_).status().message()), HasSubstr("regex cannot be used"));
  for (const auto& change : std::vector<std::function<void(v1::GenerationSpec&)>>{
           [](auto& s) { s.set_ignore_eos(true); }, [](auto& s) { s.set_min_tokens(1); },
           [](auto& s) { s.add_allowed_token_ids(5); }, [](auto& s) { s.set_regex("("); },
           [](auto& s) { s.set_json_schema("{"); }, [](auto& s) { s.set_lark_grammar("x"); }}) {
    v1::GenerationSpec spec = spec_with({});
    change(spec);
    EXPECT_EQ(ParseSpec(spec, context_).status().code(), absl::StatusCode::kInvalidArgument) << spec.ShortDebugString();
  }
  context_.grammars = nullptr;
  EXPECT_EQ(ParseSpec(spec_with({}), context_).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(SpecTest, HandoffIdIsNeverQuoted) {
  EXPECT_TRUE(CheckHandoffId(std::string(16, 'x')).ok());
  for (const std::string& id : {std::string(), std::string("secret-15-bytes"), std::string(17, 'x')}) {
    const absl::Status status = CheckHandoffId(id);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    if (!id.empty()) {
      EXPECT_EQ(status.message().find(id), absl::string_view::npos);
    }
  }
}

}  // namespace
}  // namespace kvrelay::worker
