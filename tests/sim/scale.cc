#include "tests/sim/scale.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "tests/sim/scale_router.h"
#include "tests/sim/scale_worker.h"

namespace kvrelay::sim {
namespace {

constexpr uint32_t kPromptMin = 128, kPromptMax = 640, kTokensMin = 8, kTokensMax = 24;
constexpr double kPromptMean = (kPromptMin + kPromptMax) / 2.0;
constexpr double kUtilization = 0.7;  // of prefill workers, were nothing ever found in a cache
// Skewed: for the last second of every five, this many times as many requests come.
constexpr double kWave = 2.5;
constexpr absl::Duration kWaveEvery = absl::Seconds(5), kWaveLength = absl::Seconds(1);
constexpr uint32_t kSharedBlocksMax = 6;
// Some 20 sessions, three times as many as there are; and so few that waves fill the fleet.
constexpr uint32_t kBlocksUniform = 160, kBlocksSkewed = 76;
// Before it the fleet is idle and fills: short prompts are computed where they are decoded.
constexpr absl::Duration kWarmUp = absl::Seconds(5);

// Ranks 0, 1, 2... with probability in proportion to 1 / (rank + 1).
class Zipf {
 public:
  explicit Zipf(size_t count) : sums_(count) {
    double sum = 0;
    for (size_t rank = 0; rank < count; ++rank) sums_[rank] = sum += 1.0 / static_cast<double>(rank + 1);
  }
  size_t Pick(double uniform) const {
    return std::lower_bound(sums_.begin(), sums_.end(), uniform * sums_.back()) - sums_.begin();
  }

 private:
  std::vector<double> sums_;
};

class ScaleRun {
 public:
  explicit ScaleRun(const ScaleOptions& options)
      : options_(options),
        world_(options.seed, /*trace=*/false),
        random_(options.seed),
        beginnings_(std::max(10, options.workers)) {
    for (int i = 0; i < options.routers; ++i) {
      routers_.push_back(std::make_unique<ScaleRouter>(&world_, &by_address_, static_cast<uint64_t>(i),
                                                       [this](const ScaleOutcome& outcome) { OnEnd(outcome); }));
    }
    for (int i = 0; i < options.workers / 2; ++i) {
      AddWorker(v1::WORKER_ROLE_PREFILL);
      AddWorker(v1::WORKER_ROLE_DECODE);
    }
  }

  ScaleResult Run() {
    // Every worker has reported once.
    world_.Run(world_.Now() + absl::Seconds(1), [] { return false; });
    began_ = world_.Now();
    Arrive();
    if (options_.skewed) Replace();
    world_.After(kWarmUp, nullptr, [this] {
      for (const auto& worker : workers_) before_.push_back(worker->assigned());
    });
    world_.Run(absl::InfiniteDuration(), [this] { return ended_ == options_.requests; });
    return Result();
  }

 private:
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  uint32_t Between(uint32_t first, uint32_t last) {
    return first + static_cast<uint32_t>(random_() % (last - first + 1));
  }

  // ---- Workers ----

  void AddWorker(v1::WorkerRole role) {
    workers_.push_back(std::make_unique<ScaleWorker>(&world_, &reservations_, role, static_cast<int>(workers_.size()),
                                                     options_.skewed ? kBlocksSkewed : kBlocksUniform));
    ScaleWorker* worker = workers_.back().get();
    by_address_[worker->key().second] = worker;
    for (const auto& router : routers_) router->table().Add(worker->key());
    world_.After(ScaleWorker::kReportEvery * Uniform(), nullptr, [this, worker] { Report(worker); });
  }

  void Report(ScaleWorker* worker) {
    if (!worker->alive()) return;
    const wire::WatchStatusResponse status = worker->Status();
    for (const auto& router : routers_) router->table().OnReport(worker->key(), status);
    world_.After(ScaleWorker::kReportEvery, nullptr, [this, worker] { Report(worker); });
  }

  // Some worker goes and another one comes: by turns after a drain, or at once. Each lives for some five minutes.
  void Replace() {
    world_.After(absl::Minutes(5) / options_.workers * -std::log(1 - Uniform()), nullptr, [this] { Replace(); });
    ScaleWorker* worker = workers_[random_() % workers_.size()].get();
    if (!worker->alive() || worker->draining()) return;
    AddWorker(worker->key().first);
    worker->Drain();
    const bool drains = ++replaced_ % 2 == 0;
    world_.After(drains ? absl::Seconds(5) : absl::ZeroDuration(), nullptr, [this, worker] {
      worker->Kill();
      for (const auto& router : routers_) router->table().OnStreamEnd(worker->key(), absl::UnavailableError("gone"));
    });
    world_.After(absl::Seconds(10), nullptr, [this, worker] {
      for (const auto& router : routers_) router->table().Remove(worker->key());
    });
  }

  // ---- Requests ----

  void Arrive() {
    routers_[arrived_ % routers_.size()]->Generate(NextRequest());
    if (++arrived_ == options_.requests) return;
    double rate = kUtilization * options_.workers / 2 * ScaleWorker::kPromptRate / kPromptMean;  // per second
    const absl::Duration phase = (world_.Now() - began_) % kWaveEvery;
    if (options_.skewed && phase >= kWaveEvery - kWaveLength) rate *= kWave;
    world_.After(absl::Seconds(-std::log(1 - Uniform()) / rate), nullptr, [this] { Arrive(); });
  }

  router::FlowRequest NextRequest() {
    router::FlowRequest request;
    request.request_id = "r";
    wire::GenerationSpec& spec = request.spec;
    const uint32_t length = Between(kPromptMin, kPromptMax);
    uint32_t shared = 0;
    if (options_.skewed) {
      const size_t beginning = beginnings_.Pick(Uniform());
      shared = std::min<uint32_t>(1 + beginning % kSharedBlocksMax, (length - 1) / router::kBlockTokens) *
               router::kBlockTokens;
      for (uint32_t i = 0; i < shared; ++i) spec.add_token_ids(static_cast<uint32_t>(beginning));
    }
    // The rest is like no other.
    for (uint32_t i = shared; i < length; ++i) spec.add_token_ids(static_cast<uint32_t>(1'000'000 + arrived_));
    spec.set_prompt_length(length);
    spec.set_max_tokens(Between(kTokensMin, kTokensMax));
    CountBest(spec);
    return request;
  }

  void CountBest(const wire::GenerationSpec& spec) {
    prompt_positions_ += spec.prompt_length();
    for (const uint64_t block : router::ChainOf("", {spec.token_ids().data(), spec.prompt_length()})) {
      if (!seen_.insert(block).second) best_positions_ += router::kBlockTokens;
    }
  }

  void OnEnd(const ScaleOutcome& outcome) {
    ++ended_;
    calls_ += outcome.calls;
    if (outcome.decision_us > 0) result_.decision_us.push_back(outcome.decision_us);
    if (outcome.status.ok()) {
      ++result_.completed;
      result_.longest_wait = std::max(result_.longest_wait, outcome.first_token);
      return;
    }
    ++result_.failed;
    const auto room = [&](v1::WorkerRole role) {
      return std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
        return worker->key().first == role && worker->HasRoom(outcome.tokens);
      });
    };
    if (room(v1::WORKER_ROLE_DECODE) && room(v1::WORKER_ROLE_PREFILL)) ++result_.starved;
  }

  double BusiestOverMean(v1::WorkerRole role) const {
    uint64_t most = 0, all = 0;
    size_t count = 0;
    for (size_t i = 0; i < before_.size(); ++i) {
      if (workers_[i]->key().first != role) continue;
      const uint64_t assigned = workers_[i]->assigned() - before_[i];
      ++count;
      all += assigned;
      most = std::max(most, assigned);
    }
    return static_cast<double>(most) * static_cast<double>(count) / static_cast<double>(std::max<uint64_t>(all, 1));
  }

  ScaleResult Result() {
    std::sort(result_.decision_us.begin(), result_.decision_us.end());
    if (!options_.skewed) {
      result_.busiest_prefill = BusiestOverMean(v1::WORKER_ROLE_PREFILL);
      result_.busiest_decode = BusiestOverMean(v1::WORKER_ROLE_DECODE);
    }
    uint64_t computed_for = 0, reused = 0;
    for (const auto& worker : workers_) {
      computed_for += worker->prompt_positions();
      reused += worker->reused_positions();
    }
    result_.hit_rate = static_cast<double>(reused) / static_cast<double>(computed_for);
    result_.best_hit_rate = static_cast<double>(best_positions_) / static_cast<double>(prompt_positions_);
    result_.calls_per_request = static_cast<double>(calls_) / static_cast<double>(options_.requests);
    result_.replaced = replaced_;
    return std::move(result_);
  }

  const ScaleOptions options_;
  World world_;
  std::mt19937_64 random_;
  const Zipf beginnings_;
  ScaleWorker::Reservations reservations_;
  std::vector<std::unique_ptr<ScaleWorker>> workers_;  // those that are gone too
  ScaleRouter::Workers by_address_;
  std::vector<std::unique_ptr<ScaleRouter>> routers_;
  absl::Duration began_;
  std::vector<uint64_t> before_;  // assigned to each worker when the fleet was warm
  uint64_t arrived_ = 0, ended_ = 0, calls_ = 0, replaced_ = 0;
  absl::flat_hash_set<uint64_t> seen_;  // blocks of all prompts so far
  uint64_t prompt_positions_ = 0, best_positions_ = 0;
  ScaleResult result_;
};

}  // namespace

ScaleResult RunScale(const ScaleOptions& options) { return ScaleRun(options).Run(); }

}  // namespace kvrelay::sim
