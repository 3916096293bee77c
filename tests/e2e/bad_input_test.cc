// Whatever a client sends: a clear refusal with the right code, and the service lives on (checked after each test).
#include <gmock/gmock.h>

#include <cmath>

#include "tests/e2e/requests.h"
#include "tests/e2e/shared_cluster.h"

namespace kvrelay::e2e {
namespace {

using ::testing::HasSubstr;

struct BadRequest {
  const char* name;
  std::function<void(v1::GenerateRequest&)> spoil;  // applied to a good request
  const char* message;                              // a part of the expected one
  grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;
};

using R = v1::GenerateRequest;

const BadRequest kBadRequests[] = {
    {"no prompt", [](R& r) { r.clear_prompt(); }, "prompt"},
    {"empty text", [](R& r) { r.set_text(""); }, "prompt"},
    {"no ids", [](R& r) { r.mutable_token_ids(); }, "prompt"},
    {"no messages", [](R& r) { r.mutable_chat(); }, "messages"},
    {"too many messages",
     [](R& r) {
       for (int i = 0; i < 1025; ++i) r.mutable_chat()->add_messages()->set_role("user");
     },
     "1024"},
    {"no role", [](R& r) { r.mutable_chat()->add_messages()->set_content("hi"); }, "role"},
    {"long role", [](R& r) { r.mutable_chat()->add_messages()->set_role(std::string(65, 'u')); }, "role"},
    {"text of over 1 MiB", [](R& r) { r.set_text(std::string((1 << 20) + 1, 'a')); }, "1048576"},
    {"prompt over the context",
     [](R& r) {
       for (int i = 0; i < 100'000; ++i) r.mutable_token_ids()->add_ids(100);
     },
     "context"},
    {"prompt and tokens over the context", [](R& r) { r.set_max_tokens(1'000'000); }, "context"},
    {"id outside the vocabulary", [](R& r) { r.mutable_token_ids()->add_ids(49152); }, "49152"},
    {"largest id", [](R& r) { r.mutable_token_ids()->add_ids(UINT32_MAX); }, "4294967295"},
    {"unknown model", [](R& r) { r.set_model("gpt-9"); }, "gpt-9", grpc::StatusCode::NOT_FOUND},
    {"long label", [](R& r) { r.set_request_id(std::string(129, 'x')); }, "request_id"},
    {"NaN temperature", [](R& r) { r.mutable_sampling()->set_temperature(NAN); }, "temperature"},
    {"negative temperature", [](R& r) { r.mutable_sampling()->set_temperature(-0.1f); }, "temperature"},
    {"infinite temperature", [](R& r) { r.mutable_sampling()->set_temperature(INFINITY); }, "temperature"},
    {"top_p 2", [](R& r) { r.mutable_sampling()->set_top_p(2); }, "top_p"},
    {"top_p 0", [](R& r) { r.mutable_sampling()->set_top_p(0); }, "top_p"},
    {"NaN top_p", [](R& r) { r.mutable_sampling()->set_top_p(NAN); }, "top_p"},
    {"min_p 2", [](R& r) { r.mutable_sampling()->set_min_p(2); }, "min_p"},
    {"NaN min_p", [](R& r) { r.mutable_sampling()->set_min_p(NAN); }, "min_p"},
    {"NaN repetition_penalty", [](R& r) { r.mutable_sampling()->set_repetition_penalty(NAN); }, "repetition_penalty"},
    {"repetition_penalty 0", [](R& r) { r.mutable_sampling()->set_repetition_penalty(0); }, "repetition_penalty"},
    {"presence_penalty 3", [](R& r) { r.mutable_sampling()->set_presence_penalty(3); }, "presence_penalty"},
    {"infinite frequency_penalty", [](R& r) { r.mutable_sampling()->set_frequency_penalty(INFINITY); },
     "frequency_penalty"},
    {"bias outside the vocabulary", [](R& r) { (*r.mutable_sampling()->mutable_logit_bias())[49152] = 1; }, "49152"},
    {"bias 101", [](R& r) { (*r.mutable_sampling()->mutable_logit_bias())[5] = 101; }, "logit_bias[5]"},
    {"too many biases",
     [](R& r) {
       for (uint32_t id = 0; id < 1025; ++id) (*r.mutable_sampling()->mutable_logit_bias())[id] = 1;
     },
     "1024"},
    {"allowed id outside the vocabulary", [](R& r) { r.mutable_sampling()->add_allowed_token_ids(49152); },
     "allowed_token_ids"},
    {"too many allowed ids",
     [](R& r) {
       for (int i = 0; i < 16385; ++i) r.mutable_sampling()->add_allowed_token_ids(1);
     },
     "16384"},
    {"nothing allowed but an end token",
     [](R& r) {
       r.mutable_sampling()->add_allowed_token_ids(2);
       r.set_min_tokens(1);
     },
     "end tokens"},
    {"a schema that is no JSON", [](R& r) { r.set_json_schema("{"); }, "json_schema cannot be used"},
    {"a schema of what is not known", [](R& r) { r.set_json_schema(R"({"type": "strin"})"); }, "strin"},
    {"a schema that no text fits", [](R& r) { r.set_json_schema("false"); }, "json_schema"},
    {"an unfinished expression", [](R& r) { r.set_regex("(a"); }, "regex cannot be used"},
    {"an expression nested without end", [](R& r) { r.set_regex(std::string(60'000, '(')); }, "nested"},
    {"an expression that is too long", [](R& r) { r.set_regex(std::string(65'537, 'a')); }, "65536"},
    {"a grammar without a start", [](R& r) { r.set_lark_grammar("a: \"x\""); }, "lark_grammar"},
    {"a grammar where end tokens do not end",
     [](R& r) {
       r.set_regex("a");
       r.set_ignore_eos(true);
     },
     "ignore_eos"},
    {"10,000 stop strings",
     [](R& r) {
       for (int i = 0; i < 10'000; ++i) r.add_stop("stop");
     },
     "stop"},
    {"empty stop string", [](R& r) { r.add_stop(""); }, "stop"},
    {"long stop string", [](R& r) { r.add_stop(std::string(257, 's')); }, "stop"},
    {"stop id outside the vocabulary", [](R& r) { r.add_stop_token_ids(49152); }, "stop_token_ids"},
    {"too many stop ids",
     [](R& r) {
       for (int i = 0; i < 65; ++i) r.add_stop_token_ids(1);
     },
     "stop_token_ids"},
    {"max_tokens 0", [](R& r) { r.set_max_tokens(0); }, "max_tokens"},
    {"max_tokens 2^31", [](R& r) { r.set_max_tokens(uint32_t{1} << 31); }, "max_tokens"},
    {"largest max_tokens", [](R& r) { r.set_max_tokens(UINT32_MAX); }, "max_tokens"},
    {"min_tokens over max_tokens", [](R& r) { r.set_min_tokens(5); }, "min_tokens"},
    {"logprobs 21", [](R& r) { r.set_logprobs(21); }, "logprobs"},
    {"unknown execution", [](R& r) { r.set_execution(static_cast<v1::Execution>(99)); }, "execution"},
    {"resume with all tokens",
     [](R& r) {
       for (int i = 0; i < 4; ++i) r.mutable_resume()->add_token_ids(100);
     },
     "resume"},
    // gRPC's own refusal, while it parses the message.
    {"broken UTF-8", [](R& r) { r.set_text("\xC3\x28"); }, "", grpc::StatusCode::UNIMPLEMENTED},
};

class BadInputTest : public SharedClusterTest {};

TEST_F(BadInputTest, IsRefusedWithTheRightCode) {
  for (const BadRequest& bad : kBadRequests) {
    SCOPED_TRACE(bad.name);
    v1::GenerateRequest request = TextRequest("The capital of France is", 4);
    bad.spoil(request);
    const Stream stream = Generate(stub(), request);
    EXPECT_EQ(stream.status.error_code(), bad.code) << stream.status.error_message();
    EXPECT_THAT(stream.status.error_message(), HasSubstr(bad.message));
    EXPECT_TRUE(stream.tokens.empty());
  }
  ExpectSound(Generate(stub(), TextRequest("The capital of France is", 4)));
}

TEST_F(BadInputTest, LargestGoodValuesAreTaken) {
  v1::GenerateRequest request = TextRequest("The capital of France is", 4);
  request.set_request_id(std::string(128, 'x'));
  request.mutable_sampling()->set_temperature(100);
  request.mutable_sampling()->set_top_k(UINT32_MAX);
  request.mutable_sampling()->set_top_p(1);
  request.mutable_sampling()->set_min_p(1);
  request.mutable_sampling()->set_seed(UINT64_MAX);
  request.mutable_sampling()->set_repetition_penalty(100);
  request.mutable_sampling()->set_presence_penalty(2);
  request.mutable_sampling()->set_frequency_penalty(2);
  for (uint32_t id = 0; id < 1024; ++id) (*request.mutable_sampling()->mutable_logit_bias())[id] = 100;
  for (uint32_t id = 0; id < 16384; ++id) request.mutable_sampling()->add_allowed_token_ids(3 * id);
  request.set_logprobs(20);
  request.set_min_tokens(4);
  for (int i = 0; i < 16; ++i) request.add_stop(std::string(256, 's'));
  for (int i = 0; i < 64; ++i) request.add_stop_token_ids(49151);
  const Stream stream = Generate(stub(), request);
  ExpectSound(stream);
  EXPECT_EQ(stream.started.seed(), UINT64_MAX);
  for (const v1::Token& token : stream.tokens) {
    EXPECT_EQ(token.top_size(), 20);
    EXPECT_EQ(token.id() % 3, 0u) << "the allowed ids";
  }
}

TEST_F(BadInputTest, OfTheUnaryCalls) {
  grpc::ClientContext tokenize, detokenize, model;
  v1::TokenizeResponse tokens;
  EXPECT_EQ(stub().Tokenize(&tokenize, v1::TokenizeRequest(), &tokens).error_code(), grpc::INVALID_ARGUMENT);
  v1::DetokenizeRequest ids;
  ids.add_ids(49152);
  v1::DetokenizeResponse text;
  EXPECT_EQ(stub().Detokenize(&detokenize, ids, &text).error_code(), grpc::INVALID_ARGUMENT);
  v1::GetModelRequest other;
  other.set_model("gpt-9");
  v1::GetModelResponse description;
  EXPECT_EQ(stub().GetModel(&model, other, &description).error_code(), grpc::NOT_FOUND);
}

}  // namespace
}  // namespace kvrelay::e2e
