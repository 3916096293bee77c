#include "router/request_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/router/fake_model.h"

namespace kvrelay::router {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::GenerateRequest Good() {
  v1::GenerateRequest request;
  request.set_text("hello");
  return request;
}

absl::StatusOr<FlowRequest> Build(const v1::GenerateRequest& request) {
  static const FakeModel model;
  return ToFlowRequest(request, model, /*drawn_seed=*/99, "made");
}

TEST(RequestValidation, Defaults) {
  auto flow = Build(Good());
  ASSERT_TRUE(flow.ok()) << flow.status();
  EXPECT_EQ(flow->request_id, "made");
  EXPECT_EQ(flow->spec.max_tokens(), 256u);
  EXPECT_EQ(flow->spec.top_p(), 1);
  EXPECT_EQ(flow->spec.temperature(), 0);
  EXPECT_EQ(flow->spec.seed(), 99u);
  EXPECT_FALSE(flow->spec.has_repetition_penalty());
  EXPECT_EQ(flow->spec.prompt_length(), 5u);
  EXPECT_EQ(flow->resumed(), 0u);
}

TEST(RequestValidation, DefaultMaxTokensIsWhatTheContextLeaves) {
  v1::GenerateRequest request;
  request.set_text(std::string(kFakeContext - 3, 'x'));
  EXPECT_EQ(Build(request)->spec.max_tokens(), 3u);
}

TEST(RequestValidation, LimitsThemselvesAreAllowed) {
  v1::GenerateRequest request = Good();
  request.set_request_id(std::string(128, 'r'));
  request.set_model("fake");
  request.mutable_sampling()->set_temperature(100);
  request.mutable_sampling()->set_top_p(1);
  request.mutable_sampling()->set_min_p(1);
  request.set_max_tokens(kFakeContext - 5);
  request.set_min_tokens(kFakeContext - 5);
  request.set_logprobs(20);
  for (int i = 0; i < 16; ++i) request.add_stop(std::string(256, 's'));
  for (int i = 0; i < 64; ++i) request.add_stop_token_ids(kFakeVocabulary - 1);
  request.mutable_sampling()->set_repetition_penalty(100);
  request.mutable_sampling()->set_presence_penalty(-2);
  request.mutable_sampling()->set_frequency_penalty(2);
  for (uint32_t id = 0; id < kFakeVocabulary; ++id) (*request.mutable_sampling()->mutable_logit_bias())[id] = -100;
  for (int i = 0; i < 16384; ++i) request.mutable_sampling()->add_allowed_token_ids(1);
  EXPECT_TRUE(Build(request).ok()) << Build(request).status();
}

TEST(RequestValidation, ALongPromptIsCutFromTheFront) {
  const auto prompt = [](const v1::GenerateRequest& request, bool adds_bos) {
    const FakeModel model(adds_bos);
    const auto built = ToFlowRequest(request, model, 1, "id");
    EXPECT_TRUE(built.ok()) << built.status();
    const auto& ids = built->spec.token_ids();
    EXPECT_EQ(built->spec.prompt_length(), static_cast<uint32_t>(ids.size()));
    return std::vector<int>(ids.begin(), ids.end());
  };
  v1::GenerateRequest request;
  request.set_text("abcde");
  for (const uint32_t most : {0u, 5u, 6u, UINT32_MAX}) {
    request.set_truncate_prompt_tokens(most);
    EXPECT_EQ(prompt(request, false), (std::vector<int>{'a', 'b', 'c', 'd', 'e'}));
  }
  request.set_truncate_prompt_tokens(2);
  EXPECT_EQ(prompt(request, false), (std::vector<int>{'d', 'e'}));
  EXPECT_EQ(prompt(request, true), (std::vector<int>{0, 'e'})) << "BOS stays and is one of them";
  request.set_truncate_prompt_tokens(1);
  EXPECT_EQ(prompt(request, true), (std::vector<int>{0}));
  for (const uint32_t id : {0, 7, 8, 9}) request.mutable_token_ids()->add_ids(id);
  request.set_truncate_prompt_tokens(3);
  EXPECT_EQ(prompt(request, true), (std::vector<int>{7, 8, 9})) << "ids are used as they are";
  // Before the limits are looked at: what is left has to fit, not what was given.
  request.set_text(std::string(kFakeContext + 100, 'x'));
  EXPECT_EQ(prompt(request, false), (std::vector<int>(3, 'x')));
}

TEST(RequestValidation, WhatChangesLogitsIsHandedOn) {
  v1::GenerateRequest request = Good();
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_repetition_penalty(1.5f);
  sampling.set_presence_penalty(-1);
  sampling.set_frequency_penalty(0.5f);
  (*sampling.mutable_logit_bias())[7] = -3;
  sampling.add_allowed_token_ids(9);
  const wire::GenerationSpec spec = Build(request)->spec;
  EXPECT_EQ(spec.repetition_penalty(), 1.5f);
  EXPECT_EQ(spec.presence_penalty(), -1);
  EXPECT_EQ(spec.frequency_penalty(), 0.5f);
  EXPECT_THAT(spec.logit_bias(), ::testing::ElementsAre(::testing::Pair(7, -3)));
  EXPECT_THAT(spec.allowed_token_ids(), ::testing::ElementsAre(9));
  request.set_regex("[ab]");
  sampling.clear_allowed_token_ids();
  EXPECT_EQ(Build(request)->spec.regex(), "[ab]");
  request.clear_regex();
  sampling.add_allowed_token_ids(9);
  // End tokens alone may be allowed, but not while they are not selectable.
  sampling.set_allowed_token_ids(0, kFakeEos);
  EXPECT_TRUE(Build(request).ok());
  request.set_min_tokens(1);
  EXPECT_FALSE(Build(request).ok());
  request.set_ignore_eos(true);
  EXPECT_TRUE(Build(request).ok());
}

TEST(RequestValidation, Resume) {
  v1::GenerateRequest request = Good();
  request.set_max_tokens(4);
  for (uint32_t id : {1, 2, 3}) request.mutable_resume()->add_token_ids(id);
  request.mutable_resume()->set_seed(5);
  auto flow = Build(request);
  ASSERT_TRUE(flow.ok()) << flow.status();
  EXPECT_EQ(flow->resumed(), 3u);
  EXPECT_EQ(flow->spec.seed(), 5u);
}

struct BadRequest {
  const char* name;
  std::function<void(v1::GenerateRequest&)> spoil;
  absl::StatusCode code;
  const char* field;
  const char* limit;
};

const BadRequest kBad[] = {
    {"no prompt", [](auto& r) { r.clear_text(); }, absl::StatusCode::kInvalidArgument, "prompt", "token_ids"},
    {"empty text", [](auto& r) { r.set_text(""); }, absl::StatusCode::kInvalidArgument, "prompt", "at least one token"},
    {"empty ids", [](auto& r) { r.mutable_token_ids(); }, absl::StatusCode::kInvalidArgument, "prompt", "one token"},
    {"empty chat", [](auto& r) { r.mutable_chat(); }, absl::StatusCode::kInvalidArgument, "chat.messages", "1 to 1024"},
    {"long chat",
     [](auto& r) {
       for (int i = 0; i < 1025; ++i) r.mutable_chat()->add_messages()->set_role("user");
     },
     absl::StatusCode::kInvalidArgument, "chat.messages", "1024"},
    {"no role", [](auto& r) { r.mutable_chat()->add_messages(); }, absl::StatusCode::kInvalidArgument, "role",
     "1 to 64"},
    {"long role", [](auto& r) { r.mutable_chat()->add_messages()->set_role(std::string(65, 'a')); },
     absl::StatusCode::kInvalidArgument, "role", "1 to 64"},
    {"over the context", [](auto& r) { r.set_text(std::string(kFakeContext, 'x')); },
     absl::StatusCode::kInvalidArgument, "prompt", "4096"},
    {"text over 1 MiB", [](auto& r) { r.set_text(std::string((1 << 20) + 1, 'x')); },
     absl::StatusCode::kInvalidArgument, "text", "1048576"},
    {"unknown model", [](auto& r) { r.set_model("gpt"); }, absl::StatusCode::kNotFound, "gpt", "fake"},
    {"long id", [](auto& r) { r.set_request_id(std::string(129, 'r')); }, absl::StatusCode::kInvalidArgument,
     "request_id", "128"},
    {"NaN temperature", [](auto& r) { r.mutable_sampling()->set_temperature(std::nanf("")); },
     absl::StatusCode::kInvalidArgument, "temperature is nan", "100"},
    {"infinite temperature",
     [](auto& r) { r.mutable_sampling()->set_temperature(std::numeric_limits<float>::infinity()); },
     absl::StatusCode::kInvalidArgument, "temperature is inf", "100"},
    {"negative temperature", [](auto& r) { r.mutable_sampling()->set_temperature(-1); },
     absl::StatusCode::kInvalidArgument, "temperature is -1", "100"},
    {"top_p 2", [](auto& r) { r.mutable_sampling()->set_top_p(2); }, absl::StatusCode::kInvalidArgument, "top_p is 2",
     "at most 1"},
    {"top_p 0", [](auto& r) { r.mutable_sampling()->set_top_p(0); }, absl::StatusCode::kInvalidArgument, "top_p is 0",
     "above 0"},
    {"NaN top_p", [](auto& r) { r.mutable_sampling()->set_top_p(std::nanf("")); }, absl::StatusCode::kInvalidArgument,
     "top_p is nan", "at most 1"},
    {"NaN min_p", [](auto& r) { r.mutable_sampling()->set_min_p(std::nanf("")); }, absl::StatusCode::kInvalidArgument,
     "min_p", "0 to 1"},
    {"NaN repetition", [](auto& r) { r.mutable_sampling()->set_repetition_penalty(std::nanf("")); },
     absl::StatusCode::kInvalidArgument, "sampling.repetition_penalty is nan", "above 0 and at most 100"},
    {"repetition 0", [](auto& r) { r.mutable_sampling()->set_repetition_penalty(0); },
     absl::StatusCode::kInvalidArgument, "sampling.repetition_penalty is 0", "above 0"},
    {"repetition 101", [](auto& r) { r.mutable_sampling()->set_repetition_penalty(101); },
     absl::StatusCode::kInvalidArgument, "sampling.repetition_penalty is 101", "100"},
    {"presence 2.5", [](auto& r) { r.mutable_sampling()->set_presence_penalty(2.5f); },
     absl::StatusCode::kInvalidArgument, "sampling.presence_penalty is 2.5", "-2 to 2"},
    {"NaN frequency", [](auto& r) { r.mutable_sampling()->set_frequency_penalty(std::nanf("")); },
     absl::StatusCode::kInvalidArgument, "sampling.frequency_penalty is nan", "-2 to 2"},
    {"bias 101", [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[3] = 101; },
     absl::StatusCode::kInvalidArgument, "sampling.logit_bias[3] is 101", "-100 to 100"},
    {"infinite bias",
     [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[3] = -std::numeric_limits<float>::infinity(); },
     absl::StatusCode::kInvalidArgument, "sampling.logit_bias[3] is -inf", "-100 to 100"},
    {"bias outside", [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[kFakeVocabulary] = 1; },
     absl::StatusCode::kInvalidArgument, "sampling.logit_bias is for token id 300", "300"},
    {"1025 biases",
     [](auto& r) {
       for (uint32_t id = 0; id < 1025; ++id) (*r.mutable_sampling()->mutable_logit_bias())[id] = 1;
     },
     absl::StatusCode::kInvalidArgument, "sampling.logit_bias is 1025", "at most 1024"},
    {"allowed outside", [](auto& r) { r.mutable_sampling()->add_allowed_token_ids(kFakeVocabulary); },
     absl::StatusCode::kInvalidArgument, "sampling.allowed_token_ids[0] is 300", "300"},
    {"16385 allowed",
     [](auto& r) {
       for (int i = 0; i < 16385; ++i) r.mutable_sampling()->add_allowed_token_ids(1);
     },
     absl::StatusCode::kInvalidArgument, "sampling.allowed_token_ids is 16385", "16384"},
    {"nothing is left to select",
     [](auto& r) {
       r.set_min_tokens(1);
       r.add_stop_token_ids(9);
       for (const uint32_t id : {9u, kFakeEos}) r.mutable_sampling()->add_allowed_token_ids(id);
     },
     absl::StatusCode::kInvalidArgument, "sampling.allowed_token_ids is of end tokens alone", "min_tokens = 1"},
    {"a grammar the model refuses", [](auto& r) { r.set_regex("wrong"); }, absl::StatusCode::kInvalidArgument,
     "regex cannot be used", "no such grammar"},
    {"a grammar without end tokens",
     [](auto& r) {
       r.set_json_schema("{}");
       r.set_ignore_eos(true);
     },
     absl::StatusCode::kInvalidArgument, "json_schema cannot go with", "ignore_eos"},
    {"a grammar and min_tokens",
     [](auto& r) {
       r.set_lark_grammar("start: x");
       r.set_min_tokens(1);
     },
     absl::StatusCode::kInvalidArgument, "lark_grammar cannot go with", "min_tokens"},
    {"10,000 stop strings",
     [](auto& r) {
       for (int i = 0; i < 10000; ++i) r.add_stop("x");
     },
     absl::StatusCode::kInvalidArgument, "stop is 10000", "16"},
    {"empty stop", [](auto& r) { r.add_stop(""); }, absl::StatusCode::kInvalidArgument, "stop[0]", "1 to 256"},
    {"long stop", [](auto& r) { r.add_stop(std::string(257, 's')); }, absl::StatusCode::kInvalidArgument, "stop[0]",
     "256"},
    {"65 stop ids",
     [](auto& r) {
       for (int i = 0; i < 65; ++i) r.add_stop_token_ids(1);
     },
     absl::StatusCode::kInvalidArgument, "stop_token_ids", "64"},
    {"stop id outside", [](auto& r) { r.add_stop_token_ids(kFakeVocabulary); }, absl::StatusCode::kInvalidArgument,
     "stop_token_ids[0] is 300", "300"},
    {"max_tokens 0", [](auto& r) { r.set_max_tokens(0); }, absl::StatusCode::kInvalidArgument, "max_tokens is 0",
     "at least 1"},
    {"max_tokens 2^31", [](auto& r) { r.set_max_tokens(1u << 31); }, absl::StatusCode::kInvalidArgument,
     "max_tokens is 2147483648", "4091"},
    {"max_tokens 2^32-1", [](auto& r) { r.set_max_tokens(4294967295u); }, absl::StatusCode::kInvalidArgument,
     "max_tokens is 4294967295", "4091"},
    {"min over max",
     [](auto& r) {
       r.set_max_tokens(3);
       r.set_min_tokens(4);
     },
     absl::StatusCode::kInvalidArgument, "min_tokens is 4", "3"},
    {"prompt id outside", [](auto& r) { r.mutable_token_ids()->add_ids(kFakeVocabulary); },
     absl::StatusCode::kInvalidArgument, "token_ids.ids[0] is 300", "300"},
    {"prompt id 2^31", [](auto& r) { r.mutable_token_ids()->add_ids(1u << 31); }, absl::StatusCode::kInvalidArgument,
     "token_ids.ids[0] is 2147483648", "300"},
    {"unknown execution", [](auto& r) { r.set_execution(static_cast<v1::Execution>(77)); },
     absl::StatusCode::kInvalidArgument, "execution is 77", "Execution"},
    {"logprobs 21", [](auto& r) { r.set_logprobs(21); }, absl::StatusCode::kInvalidArgument, "logprobs is 21", "20"},
    {"resume of all",
     [](auto& r) {
       r.set_max_tokens(1);
       r.mutable_resume()->add_token_ids(1);
     },
     absl::StatusCode::kInvalidArgument, "resume.token_ids", "max_tokens - 1"},
    {"resume id outside", [](auto& r) { r.mutable_resume()->add_token_ids(kFakeVocabulary); },
     absl::StatusCode::kInvalidArgument, "resume.token_ids[0]", "300"},
    {"resume after the end", [](auto& r) { r.mutable_resume()->add_token_ids(kFakeEos); },
     absl::StatusCode::kInvalidArgument, "resume.token_ids[0]", "ended"},
    {"resume with another seed",
     [](auto& r) {
       r.mutable_sampling()->set_seed(1);
       r.mutable_resume()->set_seed(2);
     },
     absl::StatusCode::kInvalidArgument, "resume.seed is 2", "1"},
};

TEST(RequestValidation, EveryBadRequestIsNamed) {
  for (const BadRequest& bad : kBad) {
    SCOPED_TRACE(bad.name);
    v1::GenerateRequest request = Good();
    bad.spoil(request);
    const absl::Status status = Build(request).status();
    EXPECT_EQ(status.code(), bad.code) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(bad.field), HasSubstr(bad.limit)));
  }
}

TEST(RequestValidation, TokenizeAndDetokenize) {
  const FakeModel model;
  v1::TokenizeRequest tokenize;
  EXPECT_TRUE(absl::IsInvalidArgument(TokenizePrompt(tokenize, model).status()));
  tokenize.set_text("");
  EXPECT_TRUE(TokenizePrompt(tokenize, model)->empty());
  tokenize.set_model("gpt");
  EXPECT_TRUE(absl::IsNotFound(TokenizePrompt(tokenize, model).status()));
  v1::DetokenizeRequest detokenize;
  EXPECT_TRUE(CheckDetokenize(detokenize, model.facts()).ok());
  detokenize.add_ids(kFakeVocabulary);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckDetokenize(detokenize, model.facts())));
  detokenize.clear_ids();
  for (int i = 0; i <= 1 << 20; ++i) detokenize.add_ids(1);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckDetokenize(detokenize, model.facts())));
}

TEST(ServedModel, Slug) {
  EXPECT_EQ(ModelSlug("SmolLM2 135M Instruct"), "smollm2-135m-instruct");
  EXPECT_EQ(ModelSlug("  Llama-3.2 (1B)  "), "llama-3.2-1b");
  EXPECT_EQ(ModelSlug("\xea\xb0\x80"), "");
}

}  // namespace
}  // namespace kvrelay::router
