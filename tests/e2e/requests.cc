#include "tests/e2e/requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "cli/client.h"

namespace kvrelay::e2e {
namespace {

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

}  // namespace

std::vector<uint32_t> Stream::ids() const {
  std::vector<uint32_t> ids;
  for (const v1::Token& token : tokens) ids.push_back(token.id());
  return ids;
}

v1::PositionAccounting Stream::worker(v1::WorkerRole role) const {
  for (const v1::WorkerPositions& worker : finished.workers()) {
    if (worker.role() == role) return worker.positions();
  }
  return {};
}

v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.set_max_tokens(max_tokens);
  return request;
}

v1::GenerateRequest LongPromptRequest(int lines, uint32_t max_tokens) {
  std::string text;
  for (int i = 0; i < lines; ++i) absl::StrAppend(&text, "Line ", i, " of a long report. ");
  v1::GenerateRequest request = TextRequest(text, max_tokens);
  request.set_ignore_eos(true);
  request.set_logprobs(2);
  request.set_execution(v1::EXECUTION_SPLIT);
  return request;
}

v1::GenerateRequest ChatRequest(const std::string& message, uint32_t max_tokens) {
  v1::GenerateRequest request;
  v1::ChatMessage* turn = request.mutable_chat()->add_messages();
  turn->set_role("user");
  turn->set_content(message);
  request.set_max_tokens(max_tokens);
  return request;
}

void Stream::Add(const v1::GenerateResponse& response) {
  positions.push_back(response.positions());
  if (response.has_started()) started = response.started();
  if (response.has_run()) runs.push_back(response.run());
  if (response.has_token()) {
    tokens.push_back(response.token());
    text += response.token().text();
  }
  if (response.has_finished()) {
    finished = response.finished();
    text += response.finished().text();
  }
}

Stream Generate(v1::GenerationService::Stub& stub, const v1::GenerateRequest& request, const AfterEvent& after_event) {
  Stream stream;
  grpc::ClientContext context;
  const auto reader = stub.Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    stream.Add(response);
    after_event(stream);
  }
  stream.status = reader->Finish();
  return stream;
}

Stream GenerateResuming(const std::vector<std::string>& routers, const v1::GenerateRequest& request,
                        const AfterEvent& after_event, uint32_t* resumes) {
  Stream stream;
  cli::Interrupt nobody;
  cli::Client client({.addresses = routers}, /*deadline_ms=*/0, &nobody);
  const cli::CallEnd end = client.Generate(request, [&](const v1::GenerateResponse& response) {
    stream.Add(response);
    after_event(stream);
    return true;
  });
  stream.status = end.status;
  if (resumes != nullptr) *resumes = end.resumes;
  return stream;
}

bool SameOutput(const Stream& a, const Stream& b) {
  const auto same_token = [](const v1::Token& x, const v1::Token& y) {
    return x.SerializeAsString() == y.SerializeAsString();
  };
  return a.text == b.text &&
         std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(), same_token) &&
         a.finished.reason() == b.finished.reason() && a.finished.stop() == b.finished.stop() &&
         a.finished.has_stop_token_id() == b.finished.has_stop_token_id() &&
         a.finished.stop_token_id() == b.finished.stop_token_id();
}

void ExpectSound(const Stream& stream) {
  ASSERT_TRUE(stream.status.ok()) << stream.status.error_code() << ": " << stream.status.error_message();
  for (size_t i = 0; i < stream.tokens.size(); ++i) EXPECT_EQ(stream.tokens[i].index(), i);
  EXPECT_NE(stream.finished.reason(), v1::FINISH_REASON_UNSPECIFIED);
  EXPECT_EQ(stream.finished.usage().prompt(), stream.started.prompt_tokens());
  EXPECT_EQ(stream.finished.usage().completion(), stream.tokens.size());
  const v1::PositionAccounting& total = stream.positions.back();
  const bool no_cache = stream.started.placement().execution() == v1::EXECUTION_NO_CACHE;
  EXPECT_EQ(total.emitted(), stream.tokens.size());
  if (no_cache) {
    EXPECT_EQ(total.kv_ready(), 0u);
  } else {
    EXPECT_EQ(int64_t{total.prompt()} + total.selected() - total.kv_ready(), 1);
  }
  uint64_t computed = 0, recomputed = 0, shipped = 0, discarded = 0;
  for (const v1::WorkerPositions& worker : stream.finished.workers()) {
    const v1::PositionAccounting& p = worker.positions();
    EXPECT_EQ(p.kv_ready(), p.reused() + p.received() + p.computed() - p.discarded()) << worker.instance();
    computed += p.computed();
    recomputed += p.recomputed();
    shipped += p.shipped();
    discarded += p.discarded();
  }
  EXPECT_EQ(total.computed(), computed);
  EXPECT_EQ(total.recomputed(), recomputed);
  EXPECT_EQ(total.shipped(), shipped);
  EXPECT_EQ(total.discarded(), discarded);
}

void ExpectSameBits(const Stream& a, const Stream& b) {
  ASSERT_EQ(a.ids(), b.ids());
  EXPECT_EQ(a.text, b.text);
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(Bits(a.tokens[i].logprob()), Bits(b.tokens[i].logprob())) << "token " << i;
    ASSERT_EQ(a.tokens[i].top_size(), b.tokens[i].top_size());
    for (int k = 0; k < a.tokens[i].top_size(); ++k) {
      EXPECT_EQ(a.tokens[i].top(k).id(), b.tokens[i].top(k).id()) << "token " << i;
      EXPECT_EQ(Bits(a.tokens[i].top(k).logprob()), Bits(b.tokens[i].top(k).logprob())) << "token " << i;
    }
  }
}

}  // namespace kvrelay::e2e
