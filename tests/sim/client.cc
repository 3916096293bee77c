#include "tests/sim/client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/engine.h"

namespace kvrelay::sim {
namespace {

// A cancelled request is free on all workers after so long: twice the longest latency and a step.
constexpr absl::Duration kFreedAfter = absl::Milliseconds(250);
// With Finish on its way for at most the longest latency and a step of 20 ms, and its answer as long. A step whose
// guesses are right selects as many tokens more.
constexpr uint32_t kDroppedSteps = 8;

bool SameFloat(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// What a client may see when enough breaks; it resumes after it.
bool MayHappen(const absl::Status& status, bool damaged) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kNotFound:
      return true;
    case absl::StatusCode::kDataLoss:
      return damaged;
    default:
      return false;
  }
}

}  // namespace

Client::Client(Cluster* cluster) : Process("client", kClientNode), cluster_(cluster), world_(cluster->world()) {
  cluster->network().Place(this);
}

// Options that depend on what was selected before, and on whether it was prompt or output.
void Client::AddOptions(wire::GenerationSpec& spec) {
  const auto id = [this] { return static_cast<uint32_t>(world_.Pick(1, kVocabulary - 1)); };
  const auto quarters = [this](int min, int max) { return static_cast<float>(world_.Pick(min, max)) / 4; };
  if (world_.Chance(0.5)) spec.set_repetition_penalty(quarters(2, 9));
  if (world_.Chance(0.5)) spec.set_presence_penalty(quarters(-8, 8));
  if (world_.Chance(0.5)) spec.set_frequency_penalty(quarters(-8, 8));
  if (world_.Chance(0.3))
    for (int count = world_.Pick(1, 8); count > 0; --count) (*spec.mutable_logit_bias())[id()] = quarters(-20, 20);
  if (world_.Chance(0.2)) {
    for (int i = 0; i < 30; ++i) spec.add_allowed_token_ids(id());
  }
}

router::FlowRequest Client::RandomRequest() {
  router::FlowRequest request;
  wire::GenerationSpec& spec = request.spec;
  const int prompt = world_.Chance(0.6) ? world_.Pick(1, 60) : world_.Pick(60, 200);
  for (int i = 0; i < prompt; ++i) spec.add_token_ids(static_cast<uint32_t>(world_.Pick(1, kVocabulary - 1)));
  spec.set_prompt_length(static_cast<uint32_t>(prompt));
  spec.set_max_tokens(static_cast<uint32_t>(world_.Chance(0.08) ? 1 : world_.Pick(2, 80)));
  if (world_.Chance(0.2))
    spec.set_min_tokens(static_cast<uint32_t>(world_.Pick(1, static_cast<int>(spec.max_tokens()))));
  spec.set_seed(jobs_.size() + 1);
  spec.set_top_p(1);
  if (world_.Chance(0.4)) spec.set_temperature(1);
  if (world_.Chance(0.5)) spec.set_ignore_eos(true);
  if (world_.Chance(0.2)) spec.add_stop_token_ids(static_cast<uint32_t>(world_.Pick(1, kVocabulary - 1)));
  if (world_.Chance(0.2)) spec.set_logprobs(static_cast<uint32_t>(world_.Pick(1, 4)));
  if (world_.Chance(0.3)) spec.set_trace(true);
  if (world_.Chance(0.3)) AddOptions(spec);
  if (world_.Chance(0.3)) {
    std::string stop;
    for (int length = world_.Pick(2, 3); length > 0; --length) stop += static_cast<char>('a' + world_.Pick(0, 7));
    request.stop.push_back(stop);
  }
  static constexpr v1::Execution kExecutions[] = {v1::EXECUTION_UNSPECIFIED, v1::EXECUTION_SPLIT, v1::EXECUTION_SPLIT,
                                                  v1::EXECUTION_LOCAL};
  request.execution = world_.Chance(0.08) ? v1::EXECUTION_NO_CACHE : kExecutions[world_.Pick(0, 3)];
  return request;
}

void Client::Add(absl::Duration delay) {
  auto job = std::make_unique<Job>();
  job->request = RandomRequest();
  job->request.request_id = absl::StrCat("q", job->request.spec.seed());
  job->answer = Expected(job->request.spec, job->request.stop);
  job->router = kFirstRouter + world_.Pick(0, kRouters - 1);
  ++open_;
  world_.After(delay, this, [this, job = job.get()] {
    job->arrival = world_.Now();
    job->strikes = cluster_->strikes();
    job->calm = cluster_->Calm();
    Open(job);
  });
  jobs_.push_back(std::move(job));
}

void Client::Open(Job* job) {
  if (job->done) return;
  router::FlowRequest request = job->request;
  for (const int32_t token : job->tokens) request.spec.add_token_ids(static_cast<uint32_t>(token));
  job->resumed = static_cast<uint32_t>(job->tokens.size());
  job->started = job->finished = false;
  const uint64_t stream = ++job->stream;
  job->call = cluster_->network().Open(this, job->router);
  job->call->on_end = [this, job, stream](const absl::Status& status) {
    if (job->stream == stream) OnEnd(job, status);
  };
  job->call->ToServer([this, job, stream, weak = std::weak_ptr<Call>(job->call), request] {
    const auto call = weak.lock();
    static_cast<RouterProcess*>(call->server())
        ->Generate(call, request, [this, job, stream](const v1::GenerateResponse& response) {
          if (job->stream == stream && !job->done) OnResponse(job, response);
        });
  });
}

void Client::OnResponse(Job* job, const v1::GenerateResponse& response) {
  CheckPositions(job, response.positions());
  if (response.has_started()) {
    if (std::exchange(job->started, true)) Violation(*job, "stream", "Started came twice");
    job->no_cache = response.started().placement().execution() == v1::EXECUTION_NO_CACHE;
  } else if (!job->started || job->finished) {
    Violation(*job, "stream", "a message before Started or after Finished");
  } else if (response.has_token()) {
    OnToken(job, response.token());
  } else if (response.has_finished()) {
    OnFinished(job, response);
  }
}

void Client::OnToken(Job* job, const v1::Token& token) {
  const size_t index = job->tokens.size();
  if (token.index() != index)
    return Violation(*job, "tokens", absl::StrCat("token ", token.index(), " came as ", index));
  if (index >= job->answer.tokens.size()) return Violation(*job, "tokens", "a token after the end");
  const Answer::Token& want = job->answer.tokens[index];
  if (static_cast<int32_t>(token.id()) != want.id)
    Violation(*job, "tokens", absl::StrCat("token ", index, " is ", token.id(), " instead of ", want.id));
  bool same = token.top_size() == static_cast<int>(want.top.size());
  if (same && !want.top.empty()) same = SameFloat(token.logprob(), want.logprob);
  for (int i = 0; same && i < token.top_size(); ++i)
    same = static_cast<int32_t>(token.top(i).id()) == want.top[i].first &&
           SameFloat(token.top(i).logprob(), want.top[i].second);
  if (!same) Violation(*job, "logprobs", absl::StrCat("of token ", index));
  job->tokens.push_back(static_cast<int32_t>(token.id()));
  job->text += token.text();
  ++figures_.tokens;
}

void Client::CheckPositions(Job* job, const v1::PositionAccounting& p) {
  if (p.prompt() != job->request.spec.prompt_length() || p.recomputed() > p.computed() ||
      (job->no_cache && p.kv_ready() != 0) || (p.kv_ready() > 0 && p.prompt() + p.selected() - p.kv_ready() != 1))
    Violation(*job, "accounting", p.ShortDebugString());
}

void Client::OnFinished(Job* job, const v1::GenerateResponse& response) {
  job->finished = true;
  const v1::Finished& finished = response.finished();
  job->text += finished.text();
  if (job->tokens.size() != job->answer.tokens.size())
    Violation(*job, "tokens", absl::StrCat(job->tokens.size(), " instead of ", job->answer.tokens.size()));
  if (job->text != job->answer.text)
    Violation(*job, "text", absl::StrCat("\"", job->text, "\" instead of \"", job->answer.text, "\""));
  const bool length = finished.reason() == v1::FINISH_REASON_LENGTH;
  if (length != (job->answer.end == sampling::EndReason::kLength)) Violation(*job, "reason", "of the end differs");

  const v1::PositionAccounting& total = response.positions();
  const uint32_t emitted = static_cast<uint32_t>(job->tokens.size()) - job->resumed;
  if (total.emitted() != emitted || finished.usage().completion() != emitted ||
      total.selected() != job->resumed + emitted + finished.usage().dropped())
    Violation(*job, "accounting", total.ShortDebugString());
  uint64_t computed = 0, shipped = 0, received = 0;
  for (const v1::WorkerPositions& worker : finished.workers()) {
    const v1::PositionAccounting& p = worker.positions();
    if (uint64_t{p.kv_ready()} + p.discarded() != uint64_t{p.reused()} + p.received() + p.computed())
      Violation(*job, "accounting", worker.ShortDebugString());
    computed += p.computed();
    shipped += p.shipped();
    received += p.received();
  }
  if (total.computed() != computed || total.shipped() != shipped)
    Violation(*job, "accounting", total.ShortDebugString());
  const bool undisturbed = job->calm && job->strikes == cluster_->strikes();
  const uint32_t guessed = std::min<uint32_t>(finished.usage().accepted(), kDroppedSteps * kDraftTokens);
  if (undisturbed && finished.usage().dropped() > kDroppedSteps + guessed)
    Violation(*job, "finish", absl::StrCat(finished.usage().dropped(), " tokens selected after the end"));
  if (finished.moves() > 0 && finished.replans() == 0 && finished.attempts() == 1 && job->resumed == 0 &&
      !job->no_cache && total.recomputed() > 0)
    Violation(*job, "move", absl::StrCat(total.recomputed(), " positions computed again"));
  figures_.replans += finished.replans();
  figures_.moves += finished.moves();
  // A plan may have ended before its prompt was begun.
  figures_.retried_attempts += std::max(finished.attempts(), finished.replans() + 1) - 1 - finished.replans();
}

void Client::OnEnd(Job* job, const absl::Status& status) {
  if (job->done) return;
  if (status.ok()) {
    if (!job->finished) Violation(*job, "stream", "ended well without Finished");
    ++figures_.completed;
    return Done(job);
  }
  ++figures_.failures[absl::StatusCodeToString(status.code())];
  world_.Trace(name(), absl::StrCat(job->request.request_id, " broke: ", status.ToString()));
  // Only what was struck by a damaged frame may be lost by one.
  if (!MayHappen(status, !cluster_->observer().damaged.empty()) || absl::StrContains(status.message(), "came out as"))
    Violation(*job, "status", status.ToString());
  if (job->finished || job->tokens.size() == job->answer.tokens.size()) {
    ++figures_.completed;
    return Done(job);
  }
  ++figures_.resumes;
  job->router = kFirstRouter + (job->router - kFirstRouter + 1) % kRouters;
  world_.After(world_.Pick(absl::Milliseconds(50), absl::Milliseconds(500)), this, [this, job] { Open(job); });
}

void Client::Done(Job* job) {
  job->done = true;
  job->call = nullptr;
  --open_;
}

void Client::Cancel(uint64_t seed) {
  Job* job = jobs_.at(seed - 1).get();
  if (job->done) return;
  world_.Trace(name(), absl::StrCat(job->request.request_id, " goes away"));
  job->cancelled = true;
  const std::shared_ptr<Call> call = job->call;
  Done(job);
  ++figures_.cancelled;
  call->Cancel();
  if (!cluster_->Calm()) return;
  world_.After(kFreedAfter, this, [this, job, strikes = cluster_->strikes()] {
    if (cluster_->strikes() == strikes) CheckFreed(*job);
  });
}

void Client::Doze(uint64_t seed) {
  const Job& job = *jobs_.at(seed - 1);
  if (!job.done) cluster_->Doze(job.call);
}

void Client::CheckFreed(const Job& job) {
  for (int node = kFirstPrefill; node < kEndNode; ++node) {
    if (cluster_->worker(node).engine().HoldsKv(job.request.spec.seed()))
      Violation(job, "cancel", absl::StrCat("KV is held on ", cluster_->worker(node).name(), " after the client left"));
  }
}

void Client::CheckAllDone() {
  for (const auto& job : jobs_) {
    if (!job->done)
      Violation(*job, "lost stream", absl::StrCat(job->tokens.size(), " of ", job->answer.tokens.size(), " tokens"));
  }
}

void Client::Violation(const Job& job, const std::string& check, const std::string& what) {
  cluster_->observer().Violation(check, absl::StrCat("request ", job.request.request_id, ": ", what));
}

}  // namespace kvrelay::sim
