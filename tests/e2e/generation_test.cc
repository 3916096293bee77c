// What a user gets from three processes: answers, the same bits in every execution, and an account of every position.
#include <gmock/gmock.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/rpc/duration.h"
#include "tests/e2e/requests.h"
#include "tests/e2e/shared_cluster.h"

namespace kvrelay::e2e {
namespace {

using ::testing::HasSubstr;

class GenerationTest : public SharedClusterTest {
 protected:
  // Runs the request and checks what holds for every stream.
  Stream Run(v1::GenerateRequest request, v1::Execution execution = v1::EXECUTION_UNSPECIFIED) {
    request.set_execution(execution);
    Stream stream = Generate(stub(), request);
    ExpectSound(stream);
    return stream;
  }
};

// More tokens than one block of 64 positions.
std::string LongText() {
  std::string text = "A list of numbers and what they are good for:\n";
  for (int i = 1; i <= 20; ++i) absl::StrAppend(&text, i, ". The number ", i * 7, " comes after ", i * 7 - 1, ".\n");
  return text;
}

// Runs have to go on to their last token for exact counts.
v1::GenerateRequest FixedLength(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request = TextRequest(text, max_tokens);
  request.set_ignore_eos(true);
  return request;
}

TEST_F(GenerationTest, KnowsTheCapitalOfFrance) {
  const Stream stream = Run(TextRequest("The capital of France is", 8));
  EXPECT_THAT(stream.text, HasSubstr("Paris"));
  // Five tokens: what costs less depends on the load, and the answer says it.
  EXPECT_THAT(stream.started.placement().reason(), HasSubstr("costs less")) << stream.started.ShortDebugString();
}

TEST_F(GenerationTest, SplitIsReal) {
  v1::GenerateRequest request = FixedLength(LongText(), 8);
  request.set_cache_salt("nothing to reuse");
  const Stream stream = Run(request, v1::EXECUTION_SPLIT);
  const uint32_t prompt = stream.started.prompt_tokens();
  ASSERT_GT(prompt, 128u);
  const v1::Placement& placement = stream.started.placement();
  EXPECT_NE(placement.prefill_instance(), placement.decode_instance());
  EXPECT_THAT(placement.prefill_instance(), HasSubstr("prefill-"));
  EXPECT_THAT(placement.decode_instance(), HasSubstr("decode-"));
  ASSERT_EQ(stream.finished.workers_size(), 2);
  const v1::PositionAccounting prefill = stream.worker(v1::WORKER_ROLE_PREFILL);
  const v1::PositionAccounting decode = stream.worker(v1::WORKER_ROLE_DECODE);
  EXPECT_EQ(prefill.computed(), prompt);
  EXPECT_EQ(prefill.shipped(), prompt);
  EXPECT_EQ(decode.received(), prompt);
  EXPECT_EQ(decode.computed() - decode.discarded(), stream.tokens.size() - 1)
      << "generated positions, and wrong guesses";
  EXPECT_EQ(decode.recomputed(), 0u);
  // f16 keys and values of 30 layers with 3 heads of 64: the payload is exactly what the prompt needs.
  EXPECT_EQ(stream.finished.kv_bytes_shipped(), uint64_t{prompt} * 30 * 2 * 3 * 64 * 2);
}

// What a worker holds of a prompt is neither computed nor shipped again, and the text is that of a stream from nothing.
TEST_F(GenerationTest, ReusesTheBeginningOfAPrompt) {
  for (const v1::Execution execution : {v1::EXECUTION_SPLIT, v1::EXECUTION_LOCAL}) {
    SCOPED_TRACE(v1::Execution_Name(execution));
    v1::GenerateRequest request = FixedLength(LongText(), 24);
    request.set_logprobs(3);
    request.set_cache_salt(absl::StrCat("reuse ", v1::Execution_Name(execution)));
    const Stream cold = Run(request, execution);
    const uint32_t prompt = cold.started.prompt_tokens();
    const uint32_t blocks = (prompt - 1) / 64 * 64;
    EXPECT_EQ(cold.finished.usage().cached(), 0u);
    ASSERT_TRUE(cluster().WaitUntilIdle());  // what waits on a worker may outweigh what it holds
    const Stream warm = Run(request, execution);
    ExpectSameBits(cold, warm);
    EXPECT_EQ(warm.finished.usage().cached(), blocks);
    EXPECT_EQ(warm.worker(v1::WORKER_ROLE_DECODE).reused(), blocks);
    if (execution == v1::EXECUTION_SPLIT) {
      EXPECT_EQ(warm.worker(v1::WORKER_ROLE_PREFILL).reused(), blocks);
      EXPECT_EQ(warm.worker(v1::WORKER_ROLE_PREFILL).computed(), prompt - blocks);
      EXPECT_EQ(warm.worker(v1::WORKER_ROLE_DECODE).received(), prompt - blocks);
      EXPECT_EQ(warm.finished.kv_bytes_shipped(), uint64_t{prompt - blocks} * 30 * 2 * 3 * 64 * 2);
    }

    // The next turn begins with what the first one said.
    v1::GenerateRequest next = request;
    next.set_text(LongText() + cold.text + " And then, after all of that, there is more to say about numbers.");
    ASSERT_TRUE(cluster().WaitUntilIdle());
    const Stream second = Run(next, execution);
    next.set_cache_salt(absl::StrCat("alone ", v1::Execution_Name(execution)));
    const Stream alone = Run(next, execution);
    EXPECT_GE(second.finished.usage().cached(), blocks);
    EXPECT_EQ(alone.finished.usage().cached(), 0u);
    ExpectSameBits(second, alone);
  }
}

TEST_F(GenerationTest, SplitOfOneTokenNeedsNoDecodeWorker) {
  const Stream stream = Run(FixedLength("The capital of France is", 1), v1::EXECUTION_SPLIT);
  EXPECT_EQ(stream.tokens.size(), 1u);
  EXPECT_NE(stream.started.placement().prefill_instance(), "");
  EXPECT_EQ(stream.started.placement().decode_instance(), "");
  EXPECT_EQ(stream.finished.workers_size(), 1);
  EXPECT_EQ(stream.worker(v1::WORKER_ROLE_DECODE).received(), 0u);
  EXPECT_EQ(stream.finished.kv_bytes_shipped(), 0u);
}

TEST_F(GenerationTest, LocalStaysOnOneWorker) {
  const Stream stream = Run(FixedLength("The capital of France is", 4), v1::EXECUTION_LOCAL);
  ASSERT_EQ(stream.finished.workers_size(), 1);
  const v1::PositionAccounting decode = stream.worker(v1::WORKER_ROLE_DECODE);
  EXPECT_EQ(decode.received(), 0u);
  EXPECT_EQ(decode.computed() + decode.reused(), stream.started.prompt_tokens() + 3u);
}

TEST_F(GenerationTest, ExecutionsGiveTheSameBits) {
  for (const bool greedy : {true, false}) {
    v1::GenerateRequest request = FixedLength(LongText(), 12);
    request.set_logprobs(5);
    request.mutable_sampling()->set_seed(42);
    if (!greedy) {
      request.mutable_sampling()->set_temperature(1.5f);
      request.mutable_sampling()->set_repetition_penalty(1.2f);
      request.mutable_sampling()->set_presence_penalty(0.6f);
      request.mutable_sampling()->set_frequency_penalty(0.4f);
      (*request.mutable_sampling()->mutable_logit_bias())[30] = -5;
      for (uint32_t id = 0; id < 10'000; ++id) request.mutable_sampling()->add_allowed_token_ids(3 * id);
    }
    const Stream split = Run(request, v1::EXECUTION_SPLIT);
    ExpectSameBits(split, Run(request, v1::EXECUTION_LOCAL));
    ExpectSameBits(split, Run(request, v1::EXECUTION_NO_CACHE));
  }
}

// The prefill worker selects token 0, and alone if it is the only one.
TEST_F(GenerationTest, OptionsHoldFromTheFirstTokenOn) {
  for (const uint32_t count : {1, 6}) {
    v1::GenerateRequest request = FixedLength("The capital of France is", count);
    const Stream free = Run(request, v1::EXECUTION_SPLIT);
    (*request.mutable_sampling()->mutable_logit_bias())[free.tokens[0].id()] = -100;
    request.set_logprobs(1);
    const Stream biased = Run(request, v1::EXECUTION_SPLIT);
    EXPECT_NE(biased.tokens[0].id(), free.tokens[0].id());
    EXPECT_EQ(biased.tokens[0].top(0).id(), free.tokens[0].id()) << "log-probabilities are those before all options";
    ExpectSameBits(biased, Run(request, v1::EXECUTION_LOCAL));
  }
}

// Columns of the article's table, for a prompt of p tokens and run number k from 0.
void ExpectArticleRow(const v1::RunTrace& run, uint32_t p, uint32_t k, bool no_cache) {
  SCOPED_TRACE(run.ShortDebugString());
  EXPECT_EQ(run.run(), k + 1);
  EXPECT_EQ(run.first_position(), k == 0 || no_cache ? 0 : p + k - 1);
  EXPECT_EQ(run.end_position(), p + k);
  EXPECT_EQ(run.computed(), k == 0 ? p : 1);
  EXPECT_EQ(run.recomputed(), k == 0 || !no_cache ? 0 : p + k - 1);
  EXPECT_EQ(run.positions_read(), p + k);
  EXPECT_EQ(run.kv_ready(), no_cache ? 0 : p + k);
  EXPECT_EQ(run.history(), p + k + 1);
  // The default model: 30 layers, 106,168,320 weights in them, 3 heads of K and V of 64 dims in f16.
  EXPECT_EQ(run.kv_bytes_read(), uint64_t{23040} * run.first_position());
  const uint64_t rows = run.end_position() - run.first_position();
  if (rows == 1) {
    EXPECT_EQ(run.flops(), 2 * (106'168'320 + 576 * 49'152) + uint64_t{69'120} * run.end_position());
  } else {
    EXPECT_GT(run.flops(), rows * uint64_t{200'000'000});
  }
}

TEST_F(GenerationTest, TraceIsTheArticlesTable) {
  // A prompt of its own, so that no earlier one has left a prefix behind.
  v1::GenerateRequest request = FixedLength("Owls, unlike most birds of prey,", 4);
  request.set_trace(true);
  for (const auto execution : {v1::EXECUTION_NO_CACHE, v1::EXECUTION_LOCAL, v1::EXECUTION_SPLIT}) {
    SCOPED_TRACE(v1::Execution_Name(execution));
    const Stream stream = Run(request, execution);
    ASSERT_EQ(stream.runs.size(), 4u);
    const bool no_cache = execution == v1::EXECUTION_NO_CACHE;
    EXPECT_EQ(stream.started.prompt_token_ids_size(), static_cast<int>(stream.started.prompt_tokens()));
    for (uint32_t k = 0; k < 4; ++k) {
      ExpectArticleRow(stream.runs[k], stream.started.prompt_tokens(), k, no_cache);
      EXPECT_EQ(stream.runs[k].token_id(), stream.tokens[k].id());
      if (no_cache) continue;
      EXPECT_EQ(stream.runs[k].appended(), stream.runs[k].end_position() - stream.runs[k].first_position());
    }
    const bool split = execution == v1::EXECUTION_SPLIT;
    EXPECT_EQ(stream.runs[0].instance() != stream.runs[1].instance(), split);
    EXPECT_EQ(stream.runs[0].bytes_shipped(), stream.finished.kv_bytes_shipped());
    EXPECT_EQ(stream.finished.kv_bytes_shipped() > 0, split);
    // Layer by layer, each with all positions of the prompt, which is less than a block; no sooner than it was
    // computed.
    ASSERT_EQ(stream.runs[0].shipments_size(), split ? 30 : 0);
    for (int layer = 0; layer < stream.runs[0].shipments_size(); ++layer) {
      const v1::Shipment& shipment = stream.runs[0].shipments(layer);
      EXPECT_EQ(shipment.layer(), static_cast<uint32_t>(layer));
      EXPECT_EQ(shipment.end_position() - shipment.first_position(), stream.started.prompt_tokens());
      EXPECT_EQ(shipment.bytes() * 30, stream.finished.kv_bytes_shipped());
      EXPECT_GE(rpc::FromProto(shipment.start()), rpc::FromProto(stream.runs[0].start()));
    }
  }
}

TEST_F(GenerationTest, WithoutACacheEveryRunComputesEverythingAgain) {
  const uint64_t n = 6;
  const Stream stream = Run(FixedLength("Rain falls because", n), v1::EXECUTION_NO_CACHE);
  const uint64_t p = stream.started.prompt_tokens();
  const v1::PositionAccounting& total = stream.positions.back();
  EXPECT_EQ(total.computed(), n * p + n * (n - 1) / 2);                // p, p + 1, ..., p + n - 1
  EXPECT_EQ(total.recomputed(), (n - 1) * (p - 1) + n * (n - 1) / 2);  // all but p, then all but one each
  EXPECT_EQ(total.discarded(), total.computed());
  for (const v1::PositionAccounting& positions : stream.positions) EXPECT_EQ(positions.kv_ready(), 0u);
}

TEST_F(GenerationTest, StopStringEndsTheAnswerAndIsNotEmitted) {
  v1::GenerateRequest request = TextRequest("One, two, three, four, five,", 16);
  const Stream whole = Run(request);
  ASSERT_GT(whole.text.size(), 6u);
  const std::string stop = whole.text.substr(3, 3);
  request.add_stop(stop);
  const Stream stopped = Run(request);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(stopped.finished.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(stopped.finished.stop(), stop);
  request.set_include_stop(true);
  EXPECT_EQ(Run(request).text, stopped.text + stop);
}

TEST_F(GenerationTest, ControlTokensHaveTextIfAsked) {
  v1::GenerateRequest request = FixedLength("Hello", 3);  // goes on behind end tokens
  constexpr uint32_t kEndOfTurn = 2;
  request.mutable_sampling()->add_allowed_token_ids(kEndOfTurn);
  const Stream silent = Run(request);
  ASSERT_EQ(silent.tokens.size(), 3u);
  EXPECT_EQ(silent.tokens[0].id(), kEndOfTurn);
  EXPECT_EQ(silent.text, "");
  request.set_include_control(true);
  EXPECT_EQ(Run(request).text, "<|im_end|><|im_end|><|im_end|>");
}

TEST_F(GenerationTest, ATruncatedPromptIsItsEnd) {
  v1::GenerateRequest request = FixedLength("Far away, in another time: one two three four", 6);
  const Stream whole = Run(request);
  request.set_truncate_prompt_tokens(4);
  const Stream cut = Run(request);
  EXPECT_EQ(cut.started.prompt_tokens(), 4u);
  EXPECT_EQ(cut.finished.usage().prompt(), 4u);
  v1::GenerateRequest end = FixedLength(" one two three four", 6);
  ExpectSameBits(cut, Run(end));
  EXPECT_GT(whole.started.prompt_tokens(), 4u);
}

TEST_F(GenerationTest, TwoRequestsWithOneLabel) {
  v1::GenerateRequest request = FixedLength("The sea is", 16);
  request.set_request_id("twice");
  Stream streams[2];
  std::thread other([&] { streams[0] = Generate(stub(), request); });
  streams[1] = Generate(stub(), request);
  other.join();
  for (const Stream& stream : streams) {
    ExpectSound(stream);
    EXPECT_EQ(stream.started.request_id(), "twice");
  }
  ExpectSameBits(streams[0], streams[1]);
}

TEST_F(GenerationTest, EightAtOnceGiveTheTokensOfEachAlone) {
  constexpr int kStreams = 8;
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < kStreams; ++i) {
    requests.push_back(FixedLength(absl::StrCat("Story number ", i * i, ": once upon a time"), 12));
    requests.back().mutable_sampling()->set_temperature(0.8f);
    requests.back().mutable_sampling()->set_seed(i);
    requests.back().set_logprobs(2);
  }
  std::vector<Stream> together(kStreams);
  std::vector<std::thread> threads;
  for (int i = 0; i < kStreams; ++i) threads.emplace_back([&, i] { together[i] = Generate(stub(), requests[i]); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kStreams; ++i) {
    ExpectSound(together[i]);
    ExpectSameBits(together[i], Run(requests[i]));
  }
}

TEST_F(GenerationTest, TokenizeAndDetokenizeAreInverse) {
  const std::string text = "na\xC3\xAFve \xF0\x9F\x98\x80 \xED\x95\x9C\xEA\xB8\x80\n\t  int main() { return 42; }";
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  request.set_text(text);
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(stub().Tokenize(&context, request, &tokens).ok());
  EXPECT_EQ(tokens.ids_size(), tokens.pieces_size());
  grpc::ClientContext back_context;
  v1::DetokenizeRequest back;
  *back.mutable_ids() = tokens.ids();
  v1::DetokenizeResponse response;
  ASSERT_TRUE(stub().Detokenize(&back_context, back, &response).ok());
  EXPECT_EQ(response.text(), text);
}

}  // namespace
}  // namespace kvrelay::e2e
