#include "tests/cli/fake_service.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/text/stream_decoder.h"

namespace kvrelay::cli {
namespace {

constexpr uint64_t kDrawnSeed = 18446744073709551615u;
constexpr float kLogprobs[] = {-0.1f, -1.0f / 3, -1e-30f, -87.33654f};

std::string PromptText(const v1::GenerateRequest& request) {
  if (request.has_text()) return request.text();
  std::string text;
  for (const v1::ChatMessage& message : request.chat().messages()) {
    absl::StrAppend(&text, "<", message.role(), ">", message.content());
  }
  return text;
}

std::vector<uint32_t> PromptIds(const v1::GenerateRequest& request) {
  if (request.has_token_ids()) return {request.token_ids().ids().begin(), request.token_ids().ids().end()};
  const std::string text = PromptText(request);
  std::vector<uint32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string Piece(uint32_t id) { return id < 128 ? std::string(1, static_cast<char>(id)) : "\xEF\xBF\xBD"; }

v1::GenerateResponse TokenEvent(uint32_t index, uint32_t id, const std::string& text, uint32_t logprobs) {
  v1::GenerateResponse response;
  v1::Token* token = response.mutable_token();
  token->set_index(index);
  token->set_id(id);
  token->set_text(text);
  if (logprobs > 0) {
    token->set_logprob(kLogprobs[index % std::size(kLogprobs)]);
    token->set_piece(Piece(id));
  }
  for (uint32_t i = 0; i < logprobs; ++i) {
    v1::TokenLogprob* top = token->add_top();
    top->set_id(id + i);
    top->set_text(Piece(id + i));
    top->set_logprob(kLogprobs[i % std::size(kLogprobs)]);
  }
  return response;
}

// The article's row `index` (from 0) for a prompt of `prompt` tokens.
v1::RunTrace Run(uint32_t index, uint32_t prompt, uint32_t id, v1::Execution execution) {
  const bool no_cache = execution == v1::EXECUTION_NO_CACHE;
  v1::RunTrace run;
  run.set_run(index + 1);
  run.set_instance(index == 0 && execution == v1::EXECUTION_SPLIT ? "prefill-1" : "decode-1");
  run.set_end_position(prompt + index);
  run.set_first_position(index == 0 || no_cache ? 0 : prompt + index - 1);
  run.set_computed(index == 0 ? prompt : 1);
  run.set_recomputed(no_cache && index > 0 ? prompt + index - 1 : 0);
  run.set_appended(run.end_position() - run.first_position());
  run.set_positions_read(prompt + index);
  run.set_attention_pairs(uint64_t{1} << 60);
  run.set_token_id(id);
  run.set_kv_ready(no_cache ? 0 : prompt + index);
  run.set_history(prompt + index + 1);
  run.mutable_duration()->set_nanos((no_cache ? 40'000'000 : 12'340'000) + static_cast<int>(index) * 1'000'000);
  if (index == 0 && execution == v1::EXECUTION_SPLIT) run.set_bytes_shipped(23040 * uint64_t{prompt});
  return run;
}

v1::Execution ExecutionOf(const v1::GenerateRequest& request) {
  return request.execution() == v1::EXECUTION_UNSPECIFIED ? v1::EXECUTION_SPLIT : request.execution();
}

std::string Said(const v1::GenerateRequest& request) {
  const std::string text = PromptText(request);
  return absl::StartsWith(text, "say:") ? text.substr(4) : "";
}

v1::GenerateResponse StartedEvent(const v1::GenerateRequest& request, const std::vector<uint32_t>& prompt) {
  v1::GenerateResponse response;
  v1::Started* started = response.mutable_started();
  const uint64_t seed = request.sampling().has_seed() ? request.sampling().seed() : kDrawnSeed;
  started->set_request_id(request.request_id());
  started->set_seed(request.has_resume() ? request.resume().seed() : seed);
  const v1::Execution execution = ExecutionOf(request);
  started->mutable_placement()->set_execution(execution);
  started->mutable_placement()->set_prefill_instance(execution == v1::EXECUTION_SPLIT ? "prefill-1" : "decode-1");
  started->mutable_placement()->set_decode_instance("decode-1");
  started->mutable_placement()->set_reason("asked for");
  started->set_prompt_tokens(static_cast<uint32_t>(prompt.size()));
  if (request.trace()) started->mutable_prompt_token_ids()->Add(prompt.begin(), prompt.end());
  return response;
}

v1::GenerateResponse FinishedEvent(uint32_t prompt, uint32_t tokens, v1::Execution execution) {
  v1::GenerateResponse response;
  v1::Finished* finished = response.mutable_finished();
  finished->set_reason(v1::FINISH_REASON_LENGTH);
  finished->mutable_usage()->set_prompt(prompt);
  finished->mutable_usage()->set_completion(tokens);
  finished->set_attempts(1);
  v1::Timings* timings = finished->mutable_timings();
  timings->mutable_prefill()->set_nanos(12'340'000);
  timings->mutable_first_token()->set_nanos(20'000'000);
  timings->mutable_decode()->set_nanos(execution == v1::EXECUTION_NO_CACHE ? 180'000'000 : 30'000'000);
  if (execution == v1::EXECUTION_SPLIT) finished->set_kv_bytes_shipped(23040 * uint64_t{prompt});
  return response;
}

}  // namespace

FakeService::FakeService() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeService::~FakeService() { server_->Shutdown(std::chrono::system_clock::now()); }

std::string FakeService::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::vector<v1::GenerateRequest> FakeService::requests() const {
  absl::MutexLock lock(&mutex_);
  return requests_;
}

std::vector<std::string> FakeService::authorizations() const {
  absl::MutexLock lock(&mutex_);
  return authorizations_;
}

void FakeService::SetStatus(const v1::GetStatusResponse& status) {
  absl::MutexLock lock(&mutex_);
  status_ = status;
}

void FakeService::BreakAfter(size_t events, grpc::StatusCode code) {
  absl::MutexLock lock(&mutex_);
  breaks_.push_back({events, code});
}

FakeService::Break FakeService::NextBreak() {
  absl::MutexLock lock(&mutex_);
  if (breaks_.empty()) return {};
  const Break next = breaks_.front();
  breaks_.pop_front();
  return next;
}

// Prompts: "fail:N" is refused with status N, "unfinished" ends well without `finished`, "hang" sends two tokens and
// waits for the client to cancel, "flood" sends tokens until the client cancels. All others are answered with
// max_tokens tokens (default 4; what is to be said, if that is less).
grpc::Status FakeService::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request, Writer* writer) {
  {
    absl::MutexLock lock(&mutex_);
    requests_.push_back(*request);
    const auto sent = context->client_metadata().find("authorization");
    const bool none = sent == context->client_metadata().end();
    authorizations_.push_back(none ? "" : std::string(sent->second.data(), sent->second.size()));
  }
  const std::string text = PromptText(*request);
  int code = 0;
  if (absl::StartsWith(text, "fail:") && absl::SimpleAtoi(absl::StripPrefix(text, "fail:"), &code)) {
    return {static_cast<grpc::StatusCode>(code), "the fake was told to fail"};
  }
  if (refuse_split_ && request->execution() == v1::EXECUTION_SPLIT) {
    return {grpc::StatusCode::UNAVAILABLE, "no prefill worker is ready"};
  }
  if (text == "hang" || absl::EndsWith(text, "<user>hang")) return StreamUntilCancelled(2, context, writer);
  if (text == "flood") return StreamUntilCancelled(UINT32_MAX, context, writer);
  const Break next = NextBreak();
  size_t sent = 0;
  for (const v1::GenerateResponse& event : Events(*request)) {
    if (sent++ == next.events) break;
    writer->Write(event);
  }
  return next.events == SIZE_MAX ? grpc::Status::OK : grpc::Status(next.code, "the connection was lost");
}

uint32_t FakeService::TokenId(const v1::GenerateRequest& request, uint32_t index) const {
  const bool other = break_tokens_ || (break_no_cache_ && request.execution() == v1::EXECUTION_NO_CACHE);
  if (other && index == 1) return 'z';
  const std::string said = Said(request);
  return said.empty() ? 'A' + index : static_cast<unsigned char>(said[index]);
}

std::vector<v1::GenerateResponse> FakeService::Events(const v1::GenerateRequest& request) const {
  const std::vector<uint32_t> prompt = PromptIds(request);
  const auto prompt_tokens = static_cast<uint32_t>(prompt.size());
  const v1::Execution execution = ExecutionOf(request);
  const size_t said = Said(request).size();
  uint32_t tokens = request.has_max_tokens() ? request.max_tokens() : 4;
  if (said > 0) tokens = std::min(request.has_max_tokens() ? tokens : UINT32_MAX, static_cast<uint32_t>(said));
  std::vector<v1::GenerateResponse> events = {StartedEvent(request, prompt)};
  text::StreamDecoder decoder({request.stop().begin(), request.stop().end()});
  for (const uint32_t id : request.resume().token_ids()) decoder.Add(std::string(1, static_cast<char>(id)));
  v1::PositionAccounting positions;
  positions.set_prompt(prompt_tokens);
  bool stopped = false;
  for (auto i = static_cast<uint32_t>(request.resume().token_ids_size()); i < tokens && !stopped; ++i) {
    const uint32_t id = TokenId(request, i);
    const v1::RunTrace run = Run(i, prompt_tokens, id, execution);
    positions.set_computed(positions.computed() + run.computed() + run.recomputed());
    positions.set_recomputed(positions.recomputed() + run.recomputed());
    positions.set_kv_ready(run.kv_ready());
    positions.set_selected(i + 1);
    const text::StreamDecoder::Piece piece = decoder.Add(std::string(1, static_cast<char>(id)));
    stopped = piece.stopped;
    v1::GenerateResponse& token = events.emplace_back(TokenEvent(i, id, piece.text, request.logprobs()));
    *token.mutable_positions() = positions;
    if (!request.trace()) continue;
    v1::GenerateResponse& traced = events.emplace_back();
    *traced.mutable_run() = run;
    *traced.mutable_positions() = positions;
  }
  if (PromptText(request) == "unfinished") return events;
  events.push_back(FinishedEvent(prompt_tokens, tokens, execution));
  if (!stopped) events.back().mutable_finished()->set_text(decoder.Flush());
  return events;
}

grpc::Status FakeService::StreamUntilCancelled(uint32_t tokens, grpc::ServerContext* context, Writer* writer) {
  writer->Write(StartedEvent(v1::GenerateRequest(), {'p'}));
  for (uint32_t i = 0; i < tokens && !context->IsCancelled(); ++i) {
    const uint32_t id = 'A' + i % 26;
    if (!writer->Write(TokenEvent(i, id, Piece(id), 0))) break;
  }
  while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
  ++cancelled_;
  return grpc::Status::CANCELLED;
}

grpc::Status FakeService::Tokenize(grpc::ServerContext*, const v1::TokenizeRequest* request,
                                   v1::TokenizeResponse* response) {
  v1::GenerateRequest prompt;
  if (request->has_chat()) {
    *prompt.mutable_chat() = request->chat();
  } else {
    prompt.set_text(request->text());
  }
  for (const uint32_t id : PromptIds(prompt)) {
    response->add_ids(id);
    response->add_pieces(Piece(id));
  }
  return grpc::Status::OK;
}

grpc::Status FakeService::Detokenize(grpc::ServerContext*, const v1::DetokenizeRequest* request,
                                     v1::DetokenizeResponse* response) {
  for (const uint32_t id : request->ids()) response->mutable_text()->append(Piece(id));
  return grpc::Status::OK;
}

grpc::Status FakeService::GetModel(grpc::ServerContext*, const v1::GetModelRequest* request,
                                   v1::GetModelResponse* response) {
  if (!request->model().empty() && request->model() != "fake") {
    return {grpc::StatusCode::NOT_FOUND, absl::StrCat("model '", request->model(), "' is not served here")};
  }
  response->set_name("fake");
  response->set_architecture("bytes");
  response->set_fingerprint("00ff");
  response->set_context_length(2048);
  response->set_vocabulary_size(256);
  response->add_eos_token_ids(0);
  response->add_eos_token_ids(4);
  response->set_has_chat_template(true);
  return grpc::Status::OK;
}

grpc::Status FakeService::GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                                    v1::GetStatusResponse* response) {
  absl::MutexLock lock(&mutex_);
  *response = status_;
  return grpc::Status::OK;
}

}  // namespace kvrelay::cli
