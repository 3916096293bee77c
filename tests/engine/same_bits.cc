#include "tests/engine/same_bits.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/engine/engine.h"
#include "common/kv_wire/handoff_receiver.h"
#include "common/kv_wire/handoff_sender.h"

namespace kvrelay::testing {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::KvSource;
using engine::SelectedToken;
using engine::Session;
using engine::SessionListener;
using engine::SessionSpec;

// Keeps what the compute thread tells; read after done().
class Recorder final : public SessionListener {
 public:
  explicit Recorder(kv_wire::HandoffSender* sender = nullptr) : sender_(sender) {}
  void OnLayer(int layer, int first, int end, bool last_chunk) override {
    if (sender_ == nullptr) return;
    for (const kv_wire::Piece& piece : sender_->OnLayer(layer, end)) pieces.push_back(piece);
  }
  void OnLogits(absl::Span<const float> logits) override { result.logits.emplace_back(logits.begin(), logits.end()); }
  void OnSelected(const SelectedToken& token) override {
    result.tokens.push_back(token.selection.token);
    result.reused = token.counts.reused;
    if (token.index > 0) result.rows_in_step_max = std::max(result.rows_in_step_max, token.run.rows_in_step_max);
    if (token.index == 1) second_.Notify();
  }
  void OnEnded(const absl::Status& s, sampling::EndReason, const engine::PositionCounts&) override {
    status = s;
    done_.Notify();
  }
  void AwaitDone() { done_.WaitForNotification(); }
  void AwaitDecoding() { second_.WaitForNotification(); }

  BitsResult result;
  absl::Status status;
  std::vector<kv_wire::Piece> pieces;

 private:
  kv_wire::HandoffSender* const sender_;
  absl::Notification done_, second_;
};

SessionSpec Spec(absl::Span<const int32_t> prompt, int count, KvSource source) {
  SessionSpec spec;
  spec.tokens.assign(prompt.begin(), prompt.end());
  spec.prompt_length = prompt.size();
  spec.end_rule.max_tokens = count;
  spec.source = source;
  return spec;
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const model::Model& model, const BitsCase& c) {
  EngineOptions options;
  options.threads = c.threads;
  options.kv_type = c.kv_type;
  options.prefill_chunk = c.chunk;
  options.max_sessions = 64;
  options.kv_blocks = 512;
  options.context_length = std::min(model.config().context_length, 8192);
  return Engine::Create(&model, options, Clock::Real());
}

// More than the steps until the request's second selection: with one row of prompts per step and no cache, 150 for the
// prompts of 15 mates and 1401 for its own.
constexpr int kMateTokens = 2000;

// Batch-mates: streams of other prompts that decode until stopped.
class Company {
 public:
  absl::Status Start(Engine* engine, int mates, int vocabulary) {
    engine_ = engine;
    for (int i = 0; i < mates; ++i) {
      auto session = engine->Reserve(Spec(MakePrompt(3 + i, vocabulary, 100 + i), kMateTokens, KvSource::kComputed));
      KV_RETURN_IF_ERROR(session.status());
      recorders_.push_back(std::make_shared<Recorder>());
      sessions_.push_back(*session);
      engine->Start(*session, recorders_.back());
    }
    for (auto& recorder : recorders_) recorder->AwaitDecoding();
    return absl::OkStatus();
  }
  void Stop() {
    for (auto& session : sessions_) engine_->Stop(session, sampling::EndReason::kNone);
    for (auto& recorder : recorders_) recorder->AwaitDone();
    sessions_.clear();
  }

 private:
  Engine* engine_ = nullptr;
  std::vector<std::shared_ptr<Session>> sessions_;
  std::vector<std::shared_ptr<Recorder>> recorders_;
};

absl::StatusOr<BitsResult> RunOn(Engine* engine, std::shared_ptr<Session> session) {
  auto recorder = std::make_shared<Recorder>();
  engine->Start(std::move(session), recorder);
  recorder->AwaitDone();
  KV_RETURN_IF_ERROR(recorder->status);
  return std::move(recorder->result);
}

// Leaves the KV of the prompt's beginning behind.
absl::Status Warm(Engine* engine, absl::Span<const int32_t> prompt) {
  KV_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                      engine->Reserve(Spec(prompt.subspan(0, kWarmTokens), 1, KvSource::kComputed)));
  return RunOn(engine, std::move(session)).status();
}

// Prefill on one engine, every byte through the wire's own code, decode on another.
absl::StatusOr<BitsResult> RunSplit(Engine* prefill, Engine* decode, absl::Span<const int32_t> prompt, int count) {
  const int n = static_cast<int>(prompt.size());
  KV_ASSIGN_OR_RETURN(std::shared_ptr<Session> target, decode->Reserve(Spec(prompt, count, KvSource::kReceived)));
  kv_wire::HandoffReceiver receiver(target->cache(),
                                    {.handoff_id = std::string(16, 'h'),
                                     .model_fingerprint = decode->model().fingerprint(),
                                     .numerics_id = decode->numerics_id(),
                                     .first_position = target->cache()->reused(),
                                     .tokens = n,
                                     .max_end_position = n,
                                     .vocabulary = static_cast<uint32_t>(decode->model().config().vocabulary),
                                     .ends_request = [](uint32_t, uint32_t) { return false; }},
                                    Clock::Real());
  KV_RETURN_IF_ERROR(receiver.OpenAttempt(1, "prefill").status());

  SessionSpec spec = Spec(prompt, count, KvSource::kComputed);
  spec.stop_after_first = true;
  KV_ASSIGN_OR_RETURN(std::shared_ptr<Session> source, prefill->Reserve(std::move(spec)));
  kv_wire::HandoffSender sender(source->cache(), target->cache()->reused(), n);
  auto recorder = std::make_shared<Recorder>(&sender);
  prefill->Start(source, recorder);
  recorder->AwaitDone();
  KV_RETURN_IF_ERROR(recorder->status);

  worker::v1::WorkerIdentity identity;
  identity.set_instance("prefill");
  identity.set_model_fingerprint(prefill->model().fingerprint());
  identity.set_numerics_id(prefill->numerics_id());
  KV_RETURN_IF_ERROR(receiver.OnHeader(sender.Header(std::string(16, 'h'), 1, identity)));
  worker::v1::KvFrame frame;
  for (const kv_wire::Piece& piece : recorder->pieces) {
    sender.BuildFrame(piece, &frame);
    KV_RETURN_IF_ERROR(receiver.OnFrame(1, frame));
  }
  worker::v1::KvCommit commit = sender.Commit();
  commit.add_selected()->set_token_id(recorder->result.tokens[0]);
  KV_RETURN_IF_ERROR(receiver.OnCommit(1, commit).status());

  target->SetReceived({recorder->result.tokens[0]});
  KV_ASSIGN_OR_RETURN(BitsResult rest, RunOn(decode, std::move(target)));
  BitsResult all = std::move(recorder->result);
  all.tokens.insert(all.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  std::move(rest.logits.begin(), rest.logits.end(), std::back_inserter(all.logits));
  all.rows_in_step_max = rest.rows_in_step_max;
  all.reused = rest.reused;
  return all;
}

}  // namespace

std::string NameOf(const BitsCase& c) {
  static constexpr const char* kWays[] = {"local", "split", "nocache"};
  return absl::StrCat(
      c.weights ? absl::StrCat(c.architecture, "_", std::string(model_file::TensorTypeName(*c.weights)), "_") : "",
      kWays[static_cast<int>(c.way)], "_chunk", c.chunk, "_threads", c.threads, "_batch", c.batch,
      c.warm ? "_warm_" : "_", std::string(kernels::IsaName(c.isa)), "_", std::string(kv::KvTypeName(c.kv_type)));
}

std::vector<int32_t> MakePrompt(int length, int vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> prompt(length);
  for (int32_t& id : prompt) id = static_cast<int32_t>(random() % vocabulary);
  return prompt;
}

absl::StatusOr<BitsResult> RunCase(const model::Model& model, const BitsCase& c, absl::Span<const int32_t> prompt,
                                   int count) {
  KV_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, MakeEngine(model, c));
  Company company;
  KV_RETURN_IF_ERROR(company.Start(engine.get(), c.batch - 1, model.config().vocabulary));
  if (c.warm) KV_RETURN_IF_ERROR(Warm(engine.get(), prompt));
  absl::StatusOr<BitsResult> result;
  if (c.way == Way::kSplit) {
    KV_ASSIGN_OR_RETURN(std::unique_ptr<Engine> prefill, MakeEngine(model, c));
    if (c.warm) KV_RETURN_IF_ERROR(Warm(prefill.get(), prompt));
    result = RunSplit(prefill.get(), engine.get(), prompt, count);
  } else {
    const KvSource source = c.way == Way::kLocal ? KvSource::kComputed : KvSource::kNoCache;
    absl::StatusOr<std::shared_ptr<Session>> session = engine->Reserve(Spec(prompt, count, source));
    result = session.ok() ? RunOn(engine.get(), *std::move(session)) : session.status();
  }
  company.Stop();
  return result;
}

std::string Difference(const BitsResult& a, const BitsResult& b) {
  if (a.logits.size() != b.logits.size())
    return absl::StrCat(a.logits.size(), " against ", b.logits.size(), " selections");
  for (size_t i = 0; i < a.logits.size(); ++i) {
    if (a.logits[i].size() != b.logits[i].size()) return "vocabularies differ";
    for (size_t j = 0; j < a.logits[i].size(); ++j)
      if (std::memcmp(&a.logits[i][j], &b.logits[i][j], sizeof(float)) != 0)
        return absl::StrCat("selection ", i, ", logit ", j, ": ", a.logits[i][j], " against ", b.logits[i][j]);
  }
  return a.tokens == b.tokens ? "" : "tokens differ";
}

}  // namespace kvrelay::testing
