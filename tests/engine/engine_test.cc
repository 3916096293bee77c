// The engine on a tiny model: the article's table, accounting, endings, cancellation, room.
#include "common/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/kernels/isa.h"
#include "common/model_file/model_file.h"
#include "tests/sampling/parity_grammar.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::engine {
namespace {

using ::testing::HasSubstr;

const model::Model& TinyModel() {
  static const model::Model* const model = [] {
    const testing::MemoryFile memory(testing::TinyModelBytes({}));
    auto file = model_file::ModelFile::Open(memory.path());
    return model::Model::Load(**file, kernels::MatmulBackend::kNative, kernels::BestIsa())->release();
  }();
  return *model;
}

std::unique_ptr<Engine> MakeEngine(EngineOptions options = {}) {
  if (options.kv_blocks == 1) options.kv_blocks = 64;
  auto engine = Engine::Create(&TinyModel(), options, Clock::Real());
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

// Options that depend on all tokens selected before.
sampling::LogitOptions Penalties() {
  return {.repetition_penalty = 1.2f, .presence_penalty = 0.5f, .frequency_penalty = 0.25f, .bias = {{7, 1}, {9, -2}}};
}

SessionSpec Spec(int prompt, uint32_t max_tokens, KvSource source = KvSource::kComputed) {
  SessionSpec spec;
  for (int i = 0; i < prompt; ++i) spec.tokens.push_back(3 + i * 13 % 200);
  spec.prompt_length = prompt;
  spec.end_rule.max_tokens = max_tokens;
  spec.source = source;
  return spec;
}

class Recorder : public SessionListener {
 public:
  void OnBeat(uint64_t, bool, uint32_t) override { beats.fetch_add(1); }
  void OnLogits(absl::Span<const float> l) override { logits.emplace_back(l.begin(), l.end()); }
  void OnSelected(const SelectedToken& token) override {
    {
      absl::MutexLock lock(&mutex);
      tokens.push_back(token);
    }
    if (!first.HasBeenNotified()) first.Notify();
  }
  void OnEnded(const absl::Status& s, sampling::EndReason r, const PositionCounts& c) override {
    status = s;
    reason = r;
    counts = c;
    done.Notify();
  }
  std::vector<int32_t> Ids() const {
    std::vector<int32_t> ids;
    for (const SelectedToken& t : tokens) ids.push_back(t.selection.token);
    return ids;
  }
  absl::Mutex mutex;
  std::vector<SelectedToken> tokens;
  std::vector<std::vector<float>> logits;  // of each selection
  absl::Status status;
  sampling::EndReason reason{};
  PositionCounts counts;
  std::atomic<int> beats = 0;
  absl::Notification first, done;
};

std::shared_ptr<Recorder> RunToEnd(Engine& engine, SessionSpec spec) {
  auto recorder = std::make_shared<Recorder>();
  auto session = engine.Reserve(std::move(spec));
  EXPECT_TRUE(session.ok()) << session.status();
  engine.Start(*std::move(session), recorder);
  recorder->done.WaitForNotification();
  return recorder;
}

// The worked example of the founding article: three prompt tokens, three runs.
TEST(Engine, WorkedExampleWithCache) {
  auto engine = MakeEngine();
  const auto r = RunToEnd(*engine, Spec(3, 3));
  ASSERT_EQ(r->tokens.size(), 3u);
  const uint32_t expected[3][6] = {{0, 3, 3, 3, 3, 6}, {3, 4, 1, 4, 4, 4}, {4, 5, 1, 5, 5, 5}};
  for (int i = 0; i < 3; ++i) {
    const SelectedToken& t = r->tokens[i];
    EXPECT_EQ(t.run.first_position, expected[i][0]);
    EXPECT_EQ(t.run.end_position, expected[i][1]);
    EXPECT_EQ(t.run.computed, expected[i][2]);
    EXPECT_EQ(t.run.recomputed, 0u);
    EXPECT_EQ(t.run.appended, expected[i][2]);
    EXPECT_EQ(t.run.positions_read, expected[i][3]);
    EXPECT_EQ(t.counts.kv_ready, expected[i][4]);
    EXPECT_EQ(t.run.attention_pairs, expected[i][5]);
    EXPECT_TRUE(t.run.chunks.empty()) << "each run is one step";
  }
  EXPECT_EQ(r->reason, sampling::EndReason::kLength);
  EXPECT_EQ(r->counts.computed, 5u) << "the last token never gets KV";
}

TEST(Engine, WorkedExampleWithoutCache) {
  auto engine = MakeEngine();
  const auto r = RunToEnd(*engine, Spec(3, 3, KvSource::kNoCache));
  ASSERT_EQ(r->tokens.size(), 3u);
  const uint32_t recomputed[] = {0, 3, 4}, first_time[] = {3, 1, 1};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(r->tokens[i].run.computed, first_time[i]);
    EXPECT_EQ(r->tokens[i].run.recomputed, recomputed[i]);
    EXPECT_EQ(r->tokens[i].counts.kv_ready, 0u);
    EXPECT_EQ(r->tokens[i].run.first_position, 0u);
  }
  EXPECT_EQ(r->counts.computed, 12u);
  EXPECT_EQ(r->counts.recomputed, 7u);
  EXPECT_EQ(r->counts.discarded, 12u);
  EXPECT_EQ(r->Ids(), RunToEnd(*engine, Spec(3, 3))->Ids()) << "the cache changes no token";
}

TEST(Engine, StopsAfterFirstForAPrefill) {
  auto engine = MakeEngine({.prefill_chunk = 16});
  SessionSpec spec = Spec(100, 50);
  spec.stop_after_first = true;
  const auto r = RunToEnd(*engine, std::move(spec));
  EXPECT_EQ(r->tokens.size(), 1u);
  EXPECT_TRUE(r->status.ok());
  EXPECT_EQ(r->reason, sampling::EndReason::kNone);
  EXPECT_EQ(r->counts.kv_ready, 100u);
  // Its steps, one after the other, are the run.
  const RunRecord& run = r->tokens[0].run;
  ASSERT_EQ(run.chunks.size(), 7u);
  uint32_t end = 0;
  absl::Duration last = run.start;
  for (const RunChunk& chunk : run.chunks) {
    EXPECT_EQ(chunk.first_position, end);
    end = chunk.end_position;
    EXPECT_GE(chunk.start, last);
    last = chunk.start + chunk.duration;
  }
  EXPECT_EQ(end, 100u);
  EXPECT_EQ(run.chunks[0].start, run.start);
  EXPECT_EQ(last, run.start + run.duration);
}

TEST(Engine, EndTokensEndAndMinTokensHoldThemBack) {
  auto engine = MakeEngine();
  const std::vector<int32_t> free = RunToEnd(*engine, Spec(5, 20))->Ids();
  SessionSpec stopping = Spec(5, 20);
  stopping.end_rule.stop_ids = {free[4]};
  const size_t first = std::find(free.begin(), free.end(), free[4]) - free.begin();
  auto r = RunToEnd(*engine, stopping);
  EXPECT_EQ(r->Ids(), std::vector<int32_t>(free.begin(), free.begin() + first + 1));
  EXPECT_EQ(r->reason, sampling::EndReason::kStopToken);
  stopping.end_rule.min_tokens = 15;
  r = RunToEnd(*engine, stopping);
  EXPECT_GE(r->tokens.size(), 16u);
  for (int i = 0; i < 15; ++i) EXPECT_NE(r->Ids()[i], free[4]) << i;
}

TEST(Engine, HistoryContinuesWithTheSameTokens) {
  auto engine = MakeEngine();
  SessionSpec spec = Spec(9, 12);
  spec.sampling = {.temperature = 1.0f, .seed = 99};
  spec.logit_options = Penalties();
  const auto whole = RunToEnd(*engine, spec)->Ids();
  SessionSpec resumed = spec;
  resumed.tokens.insert(resumed.tokens.end(), whole.begin(), whole.begin() + 5);
  const auto r = RunToEnd(*engine, resumed);
  EXPECT_EQ(r->tokens[0].index, 5u);
  EXPECT_EQ(r->Ids(), std::vector<int32_t>(whole.begin() + 5, whole.end()));
}

TEST(Engine, PenaltiesOfWhatWasSelectedWithAndWithoutACache) {
  auto engine = MakeEngine();
  SessionSpec spec = Spec(9, 30);
  const auto free = RunToEnd(*engine, spec)->Ids();
  spec.logit_options = {.presence_penalty = 2, .frequency_penalty = 2};
  const auto varied = RunToEnd(*engine, spec)->Ids();
  EXPECT_GT(std::set(varied.begin(), varied.end()).size(), std::set(free.begin(), free.end()).size());
  spec.source = KvSource::kNoCache;
  EXPECT_EQ(RunToEnd(*engine, spec)->Ids(), varied);
  spec.allowed_ids = {40, 50, 60};
  for (const int32_t id : RunToEnd(*engine, spec)->Ids()) EXPECT_THAT(spec.allowed_ids, ::testing::Contains(id));
}

TEST(Engine, ReusesWhatOthersLeftWithTheSameTokens) {
  auto engine = MakeEngine();
  const SessionSpec spec = Spec(150, 20);
  const auto cold = RunToEnd(*engine, spec);
  EXPECT_EQ(cold->counts.reused, 0u);
  const auto warm = RunToEnd(*engine, spec);
  EXPECT_EQ(warm->counts.reused, 128u);
  EXPECT_EQ(warm->counts.computed + 128, cold->counts.computed);
  EXPECT_EQ(warm->tokens[0].run.first_position, 128u);
  EXPECT_EQ(warm->Ids(), cold->Ids());

  // A second turn finds what the first one decoded: 150 + 19 positions have KV, two whole blocks and a part.
  SessionSpec next = Spec(150, 100);
  for (const int32_t id : cold->Ids()) next.tokens.push_back(id);
  for (int i = 0; i < 60; ++i) next.tokens.push_back(5 + i);
  next.prompt_length = next.tokens.size();
  const auto second = RunToEnd(*engine, next);
  EXPECT_EQ(second->counts.reused, 128u);
  const auto third = RunToEnd(*engine, next);
  EXPECT_EQ(third->counts.reused, 192u);
  next.cache_salt = "alone";
  const auto alone = RunToEnd(*engine, next);
  EXPECT_EQ(alone->counts.reused, 0u);
  EXPECT_EQ(second->Ids(), alone->Ids());
  EXPECT_EQ(third->Ids(), alone->Ids());

  const auto no_cache = RunToEnd(*engine, Spec(150, 20, KvSource::kNoCache));
  EXPECT_EQ(no_cache->counts.reused, 0u);
  EXPECT_EQ(no_cache->Ids(), cold->Ids());
  EXPECT_EQ(engine->Load().kv_blocks_referenced, 0u);
  EXPECT_GE(engine->Load().kv_blocks_cached, 3u);
}

TEST(Engine, StopEndsWithinAStepAndFreesBlocks) {
  auto engine = MakeEngine();
  auto recorder = std::make_shared<Recorder>();
  auto session = *engine->Reserve(Spec(20, 2000));
  engine->Start(session, recorder);
  recorder->first.WaitForNotification();
  engine->Stop(session, sampling::EndReason::kNone);
  recorder->done.WaitForNotification();
  EXPECT_EQ(recorder->status.code(), absl::StatusCode::kCancelled);
  session.reset();
  EXPECT_EQ(engine->Load().kv_blocks_referenced, 0u);
  EXPECT_EQ(engine->Load().active_sessions, 0u);
}

TEST(Engine, FinishIsNoError) {
  auto engine = MakeEngine();
  auto recorder = std::make_shared<Recorder>();
  auto session = *engine->Reserve(Spec(20, 2000));
  engine->Start(session, recorder);
  recorder->first.WaitForNotification();
  engine->Stop(session, sampling::EndReason::kFinishedByRouter);
  engine->Stop(session, sampling::EndReason::kFinishedByRouter);  // twice does no harm
  recorder->done.WaitForNotification();
  EXPECT_TRUE(recorder->status.ok()) << recorder->status;
  EXPECT_EQ(recorder->reason, sampling::EndReason::kFinishedByRouter);
}

// Notices when its session is held.
class Holder : public Recorder {
 public:
  void OnHeld() override { held.Notify(); }
  absl::Notification held;
};

TEST(Engine, AHeldSessionRestsAndGoesOnWithTheSameTokens) {
  auto engine = MakeEngine();
  const auto undisturbed = RunToEnd(*engine, Spec(5, 400));
  auto recorder = std::make_shared<Holder>();
  auto session = engine->Reserve(Spec(5, 400));
  ASSERT_TRUE(session.ok());
  engine->Start(*session, recorder);
  recorder->first.WaitForNotification();
  engine->Hold(*session);
  recorder->held.WaitForNotification();
  const auto count = [&] {
    absl::MutexLock lock(&recorder->mutex);
    return recorder->tokens.size();
  };
  const size_t before = count();
  ASSERT_LT(before, 400u) << "held too late to tell anything";
  RunToEnd(*engine, Spec(9, 20));  // others do not wait
  const int beats = recorder->beats;
  while (recorder->beats < beats + 2) absl::SleepFor(absl::Milliseconds(10));  // and it lives
  EXPECT_EQ(count(), before);
  EXPECT_EQ((*session)->cache()->kv_ready(), static_cast<int>(5 + before - 1));
  engine->Resume(*session);
  recorder->done.WaitForNotification();
  EXPECT_EQ(recorder->Ids(), undisturbed->Ids());
}

TEST(Engine, AHeldSessionCanBeStopped) {
  auto engine = MakeEngine();
  auto recorder = std::make_shared<Holder>();
  auto session = engine->Reserve(Spec(5, 1000));
  ASSERT_TRUE(session.ok());
  engine->Start(*session, recorder);
  engine->Hold(*session);
  recorder->held.WaitForNotification();
  engine->Stop(*session, sampling::EndReason::kFinishedByRouter);
  recorder->done.WaitForNotification();
  EXPECT_TRUE(recorder->status.ok());
  engine->Hold(*session);  // too late does no harm
  engine->Resume(*session);
}

TEST(Engine, EngineEndsBeforeItsSessions) {
  auto recorder = std::make_shared<Recorder>();
  {
    auto engine = MakeEngine();
    engine->Start(*engine->Reserve(Spec(20, 2000)), recorder);
    recorder->first.WaitForNotification();
  }
  EXPECT_EQ(recorder->status.code(), absl::StatusCode::kUnavailable);
}

TEST(Engine, RefusesWithoutTakingAnything) {
  auto engine = MakeEngine({.kv_blocks = 4, .max_sessions = 2});
  const auto full = engine->Reserve(Spec(100, 200));
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted) << full.status();
  EXPECT_EQ(engine->Load().kv_blocks_referenced, 0u);
  EXPECT_EQ(engine->Load().active_sessions, 0u);
  auto a = engine->Reserve(Spec(10, 10)), b = engine->Reserve(Spec(10, 10)), c = engine->Reserve(Spec(10, 10));
  EXPECT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(c.status().code(), absl::StatusCode::kResourceExhausted) << "two sessions are the limit";
  a->reset();
  EXPECT_TRUE(engine->Reserve(Spec(10, 10)).ok());
}

// The tiny model has heads of 16.
TEST(Engine, HeadsThatTheKvTypeCannotHoldAreRefused) {
  const auto engine = Engine::Create(&TinyModel(), {.kv_type = kv::KvType::kInt8}, Clock::Real());
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(engine.status().message().find("heads have 16"), std::string::npos) << engine.status();
}

TEST(Engine, BadSpecsAreNamed) {
  auto engine = MakeEngine();
  const auto refuse = [&](SessionSpec spec, const char* words) {
    const auto result = engine->Reserve(std::move(spec));
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(words));
  };
  refuse(Spec(0, 1), "empty");
  refuse(Spec(3, 0), "max_tokens");
  refuse(Spec(2000, 100), "context");
  refuse(Spec(3, 0xffffffffu), "context");
  SessionSpec bad = Spec(3, 3);
  bad.tokens[1] = 1 << 20;
  refuse(bad, "vocabulary");
  bad = Spec(3, 3);
  bad.tokens[2] = -1;
  refuse(bad, "vocabulary");
  bad = Spec(3, 3);
  bad.prompt_length = 4;
  refuse(bad, "prompt_length");
  bad = Spec(3, 3);
  bad.end_rule.min_tokens = 4;
  refuse(bad, "min_tokens");
  bad = Spec(3, 3);
  bad.sampling.temperature = NAN;
  refuse(bad, "temperature");
  bad = Spec(3, 3);
  bad.logit_options.bias = {{1 << 20, 1}};
  refuse(bad, "logit_bias");
  bad = Spec(3, 3);
  bad.allowed_ids = {-1};
  refuse(bad, "allowed_token_ids");
}

// Sessions of all kinds share steps and each gets what it gets alone.
TEST(Engine, BatchMatesDoNotMatter) {
  auto engine = MakeEngine({.prefill_chunk = 32});
  std::vector<SessionSpec> specs;
  for (int i = 0; i < 12; ++i) {
    specs.push_back(Spec(3 + i * 17, 25, i % 4 == 3 ? KvSource::kNoCache : KvSource::kComputed));
    specs.back().sampling = {.temperature = i % 2 ? 0.9f : 0.0f, .seed = static_cast<uint64_t>(i)};
    if (i % 3 == 0) specs.back().logit_options = Penalties();
  }
  std::vector<std::shared_ptr<Recorder>> together;
  for (const SessionSpec& spec : specs) {
    together.push_back(std::make_shared<Recorder>());
    engine->Start(*engine->Reserve(spec), together.back());
  }
  for (auto& recorder : together) recorder->done.WaitForNotification();
  uint32_t most = 0;
  for (auto& recorder : together)
    for (const SelectedToken& t : recorder->tokens) most = std::max(most, t.run.rows_in_step_max);
  EXPECT_GT(most, 32u) << "steps were shared";
  for (size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(RunToEnd(*engine, specs[i])->Ids(), together[i]->Ids()) << i;
  EXPECT_EQ(engine->Load().kv_blocks_referenced, 0u);
}

// A prompt that says the same several times.
SessionSpec RepetitiveSpec(uint32_t max_tokens, float temperature) {
  SessionSpec spec = Spec(90, max_tokens);
  for (int i = 0; i < 90; ++i) spec.tokens[i] = 3 + i % 30 * 5;
  spec.sampling.temperature = temperature;
  spec.sampling.seed = 5;
  return spec;
}

SessionSpec WithGrammar(SessionSpec spec) {
  spec.grammar = std::make_shared<sampling::ParityGrammar>();
  spec.grammar_accepted = spec.tokens.size();
  return spec;
}

// Guesses of later tokens change no bit and no count but their own.
TEST(Engine, GuessesChangeNothing) {
  uint64_t accepted = 0, rejected = 0;
  std::vector<SessionSpec> specs;
  for (const float temperature : {0.0f, 0.05f, 1.0f})
    for (const uint32_t max_tokens : {1u, 2u, 3u, 5u, 64u, 200u}) {
      specs.push_back(RepetitiveSpec(max_tokens, temperature));
      if (max_tokens == 200) specs.push_back(WithGrammar(specs.back()));
    }
  for (const SessionSpec& spec : specs) {
    auto plain = MakeEngine({.draft_tokens = 0});
    const auto expected = RunToEnd(*plain, spec);
    if (spec.grammar != nullptr) {
      for (size_t i = 0; i < expected->tokens.size(); ++i) EXPECT_EQ(expected->Ids()[i] % 2, i % 3 == 1) << i;
    }
    EXPECT_EQ(expected->counts.drafted, 0u);
    for (const int draft_tokens : {1, 7, 30}) {
      auto engine = MakeEngine({.draft_tokens = draft_tokens});
      const auto r = RunToEnd(*engine, spec);
      EXPECT_EQ(r->Ids(), expected->Ids());
      EXPECT_EQ(r->logits, expected->logits);
      EXPECT_EQ(r->reason, expected->reason);
      EXPECT_EQ(r->counts.kv_ready, expected->counts.kv_ready);
      EXPECT_EQ(r->counts.computed - r->counts.discarded, expected->counts.computed);
      EXPECT_EQ(r->counts.drafted, r->counts.accepted + r->counts.discarded);
      uint32_t wrong = 0;
      for (size_t i = 0; i < r->tokens.size(); ++i) {
        const RunRecord &run = r->tokens[i].run, &same = expected->tokens[i].run;
        wrong += run.rejected;
        EXPECT_EQ(r->tokens[i].counts.kv_ready, expected->tokens[i].counts.kv_ready);
        EXPECT_EQ(run.first_position, same.first_position);
        EXPECT_EQ(run.end_position, same.end_position);
        EXPECT_EQ(run.computed, same.computed);
        EXPECT_EQ(run.appended, same.appended);
        EXPECT_EQ(run.positions_read, same.positions_read);
        EXPECT_EQ(run.attention_pairs, same.attention_pairs);
        EXPECT_LE(run.rows_in_step_max, i == 0 ? 90u : draft_tokens + 1u);
      }
      EXPECT_EQ(wrong, r->counts.discarded);
      accepted += r->counts.accepted;
      rejected += r->counts.discarded;
    }
  }
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(rejected, 20u);
}

// What guesses leave behind: nothing that another request could find.
TEST(Engine, WrongGuessesAreNotReused) {
  auto engine = MakeEngine(), plain = MakeEngine({.draft_tokens = 0});
  const auto first = RunToEnd(*engine, RepetitiveSpec(200, 0.4f));
  ASSERT_GT(first->counts.discarded, 0u);
  SessionSpec next = RepetitiveSpec(300, 0);
  const std::vector<int32_t> more = first->Ids();
  next.tokens.insert(next.tokens.end(), more.begin(), more.end());
  next.prompt_length = next.tokens.size();
  next.end_rule.max_tokens = 20;
  const auto reusing = RunToEnd(*engine, next), computing = RunToEnd(*plain, next);
  EXPECT_EQ(reusing->counts.reused, (next.tokens.size() - 1) / 64 * 64);
  EXPECT_EQ(reusing->logits, computing->logits);
}

TEST(Engine, BeatsAlsoWhenIdle) {
  auto engine = MakeEngine();
  const uint64_t before = engine->Load().beat;
  for (int i = 0; i < 100 && engine->Load().beat < before + 2; ++i) absl::SleepFor(absl::Milliseconds(50));
  EXPECT_GE(engine->Load().beat, before + 2);
}

}  // namespace
}  // namespace kvrelay::engine
