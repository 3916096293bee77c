#include "tests/e2e/chaos.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/faults.h"
#include "tests/e2e/requests.h"

namespace kvrelay::e2e {
namespace {

// Greedy and sampled, short and long, ended by a stop string, by the model and by max_tokens.
std::vector<v1::GenerateRequest> Requests() {
  std::string report;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&report, "Line ", i, " of a long report. ");
  std::vector<v1::GenerateRequest> requests = {TextRequest("The capital of France is", 48),
                                               TextRequest("Once upon a time", 96),
                                               TextRequest(report, 24),
                                               TextRequest("A list of colours: red,", 1),
                                               ChatRequest("Write three sentences on rain.", 120),
                                               TextRequest("def add(a, b):", 64),
                                               TextRequest("Dear all, I write to you because", 256)};
  for (size_t i = 0; i < requests.size(); ++i) {
    v1::GenerateRequest& request = requests[i];
    request.set_ignore_eos(i != 4);
    request.mutable_sampling()->set_temperature(i % 2 == 0 ? 0.0f : 0.8f);
    request.mutable_sampling()->set_top_p(0.9f);
    request.mutable_sampling()->set_seed(i);
    request.set_logprobs(i % 3);
    request.add_stop("no text of this kind");
  }
  requests[0].add_stop("\n\n");
  requests[0].set_min_tokens(30);
  requests[4].add_stop(".");
  requests[4].set_min_tokens(40);
  requests[5].add_stop("return");
  requests[6].mutable_sampling()->set_temperature(1.0f);
  requests[6].mutable_sampling()->set_top_k(40);
  for (const int i : {1, 4, 6}) {
    requests[i].mutable_sampling()->set_repetition_penalty(1.15f);
    requests[i].mutable_sampling()->set_presence_penalty(0.5f);
    requests[i].mutable_sampling()->set_frequency_penalty(0.3f);
  }
  return requests;
}

class Chaos {
 public:
  explicit Chaos(const ChaosOptions& options) : options_(options), requests_(Requests()) {}

  absl::StatusOr<ChaosReport> Run() {
    KV_RETURN_IF_ERROR(cluster_.StartAll(options_.prefill, options_.decode));
    for (int i = 2; i <= options_.routers; ++i) KV_RETURN_IF_ERROR(cluster_.StartRouter(absl::StrCat("router-", i)));
    KV_RETURN_IF_ERROR(cluster_.WaitReady());
    for (const std::string& name : cluster_.names("router")) routers_.push_back(cluster_.address(name));
    KV_RETURN_IF_ERROR(RunUndisturbed());
    end_ = Clock::Real()->Now() + options_.duration;
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.streams; ++i) threads.emplace_back([this, i] { Client(i); });
    threads.emplace_back([this] { StrikeAll("prefill", options_.prefill); });
    threads.emplace_back([this] { StrikeAll("decode", options_.decode); });
    threads.emplace_back([this] { StrikeAll("router", options_.routers); });
    for (std::thread& thread : threads) thread.join();
    report_.idle_at_end = cluster_.WaitReady().ok() && cluster_.WaitUntilIdle();
    if (!report_.idle_at_end) report_.first_problem += " not idle at the end: " + cluster_.Describe();
    AttributeGaps();
    return report_;
  }

 private:
  struct Gap {
    absl::Duration begin, end;
  };

  absl::Status RunUndisturbed() {
    std::vector<std::thread> threads;
    undisturbed_.resize(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      threads.emplace_back([this, i] { undisturbed_[i] = Generate(cluster_.stub(), requests_[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Stream& stream : undisturbed_) {
      if (!stream.status.ok()) return absl::InternalError("undisturbed: " + stream.status.error_message());
    }
    return absl::OkStatus();
  }

  bool Over() const { return Clock::Real()->Now() >= end_; }

  void Client(int number) {
    std::mt19937_64 random(options_.seed * 1000 + number);
    while (!Over()) {
      const size_t which = random() % requests_.size();
      std::vector<std::string> order = routers_;
      std::rotate(order.begin(), order.begin() + random() % order.size(), order.end());
      absl::Duration last = Clock::Real()->Now();
      std::vector<Gap> gaps;
      size_t tokens = 0;
      const AfterEvent note_gap = [&](const Stream& stream) {
        if (stream.tokens.size() == tokens) return;
        const absl::Duration now = Clock::Real()->Now();
        if (tokens > 0) gaps.push_back({last, now});
        tokens = stream.tokens.size();
        last = now;
      };
      uint32_t resumes = 0;
      const Stream stream = GenerateResuming(order, requests_[which], note_gap, &resumes);
      Count(which, stream, resumes, gaps);
      if (!stream.status.ok()) absl::SleepFor(absl::Milliseconds(100));
    }
  }

  void Count(size_t which, const Stream& stream, uint32_t resumes, const std::vector<Gap>& gaps) {
    std::lock_guard lock(mutex_);
    gaps_.insert(gaps_.end(), gaps.begin(), gaps.end());
    report_.tokens += static_cast<int64_t>(stream.tokens.size());
    report_.resumed += static_cast<int>(resumes);
    if (stream.tokens.empty() && stream.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      ++report_.refused;
      return;
    }
    ++report_.streams;
    report_.attempts += static_cast<int>(stream.finished.attempts());
    report_.replans += static_cast<int>(stream.finished.replans());
    if (!stream.status.ok()) {
      ++report_.lost;
      Problem(absl::StrCat("request ", which, " ended after ", stream.tokens.size(), " tokens and ", resumes,
                           " resumes with ", stream.status.error_code(), ": ", stream.status.error_message()));
    } else if (!SameOutput(stream, undisturbed_[which])) {
      ++report_.wrong;
      Problem(
          absl::StrCat("request ", which, " gave \"", stream.text, "\" instead of \"", undisturbed_[which].text, "\""));
    }
  }

  void StrikeAll(const std::string& role, int count) {
    std::mt19937_64 random(options_.seed * 77 + role.size());
    const FaultChoice choice{.random = [&](uint64_t below) { return random() % below; },
                             .over = [this] { return Over(); }};
    while (true) {
      absl::SleepFor(absl::Milliseconds(500 + random() % 2000));
      if (Over()) return;
      FaultSpan span;
      const absl::Status back = Strike(cluster_, role, count, choice, &span);
      std::lock_guard lock(mutex_);
      faults_.push_back(span);
      if (!back.ok()) Problem(back.ToString());
    }
  }

  void Problem(const std::string& what) {
    if (report_.first_problem.empty()) report_.first_problem = what;
  }

  void AttributeGaps() {
    for (const Gap& gap : gaps_) report_.longest_gap = std::max(report_.longest_gap, gap.end - gap.begin);
    for (const FaultSpan& fault : faults_) {
      ChaosReport::Fault& total = report_.faults[fault.kind];
      ++total.count;
      for (const Gap& gap : gaps_) {
        if (gap.begin < fault.end && gap.end > fault.begin) {
          total.longest_gap = std::max(total.longest_gap, gap.end - gap.begin);
        }
      }
    }
  }

  const ChaosOptions options_;
  const std::vector<v1::GenerateRequest> requests_;
  Cluster cluster_{Cluster::Links::kProxies};
  std::vector<std::string> routers_;  // addresses
  std::vector<Stream> undisturbed_;   // by request
  absl::Duration end_;

  std::mutex mutex_;  // guards what follows
  ChaosReport report_;
  std::vector<Gap> gaps_;
  std::vector<FaultSpan> faults_;
};

}  // namespace

std::string ChaosReport::Text() const {
  std::string text = absl::StrFormat(
      "%d streams, %d tokens: %d wrong, %d lost; %d refused for want of room\n"
      "%d prefill attempts, %d re-plans, %d resumed at another router; longest token gap %.0f ms; %s\n",
      streams, tokens, wrong, lost, refused, attempts, replans, resumed, absl::ToDoubleMilliseconds(longest_gap),
      idle_at_end ? "0 sessions and 0 referenced blocks left" : "NOT idle at the end");
  for (const auto& [kind, fault] : faults) {
    absl::StrAppendFormat(&text, "  %-20s %4d times, longest token gap meanwhile %6.0f ms\n", kind, fault.count,
                          absl::ToDoubleMilliseconds(fault.longest_gap));
  }
  if (!first_problem.empty()) absl::StrAppend(&text, "first problem: ", first_problem, "\n");
  return text;
}

absl::StatusOr<ChaosReport> RunChaos(const ChaosOptions& options) { return Chaos(options).Run(); }

}  // namespace kvrelay::e2e
