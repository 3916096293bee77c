#include "tests/e2e/chaos.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
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
#include "tests/e2e/requests.h"

namespace kvrelay::e2e {
namespace {

constexpr absl::Duration kClientPatience = absl::Seconds(60);

std::vector<v1::GenerateRequest> Requests() {
  std::string report;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&report, "Line ", i, " of a long report. ");
  std::vector<v1::GenerateRequest> requests = {
      TextRequest("The capital of France is", 48), TextRequest("Once upon a time", 96), TextRequest(report, 24),
      TextRequest("A list of colours: red,", 1), TextRequest("def add(a, b):", 64)};
  for (size_t i = 0; i < requests.size(); ++i) {
    v1::GenerateRequest& request = requests[i];
    request.set_ignore_eos(true);
    request.mutable_sampling()->set_temperature(i % 2 == 0 ? 0.0f : 0.8f);
    request.mutable_sampling()->set_top_p(0.9f);
    request.mutable_sampling()->set_seed(i);
    request.set_logprobs(i % 3);
    request.add_stop("no text of this kind");
  }
  return requests;
}

// Whether both have the same text and tokens, log-probabilities included.
bool Equal(const Stream& a, const Stream& b) {
  return a.text == b.text && std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(),
                                        [](const v1::Token& x, const v1::Token& y) {
                                          return x.SerializeAsString() == y.SerializeAsString();
                                        });
}

class Chaos {
 public:
  explicit Chaos(const ChaosOptions& options) : options_(options), requests_(Requests()) {}

  absl::StatusOr<ChaosReport> Run() {
    KV_RETURN_IF_ERROR(cluster_.StartAll(options_.prefill, options_.decode));
    for (int i = 2; i <= options_.routers; ++i) KV_RETURN_IF_ERROR(cluster_.StartRouter(absl::StrCat("router-", i)));
    KV_RETURN_IF_ERROR(cluster_.WaitReady());
    for (int i = 1; i <= options_.routers; ++i) {
      routers_.push_back(v1::GenerationService::NewStub(
          grpc::CreateChannel(cluster_.address(absl::StrCat("router-", i)), grpc::InsecureChannelCredentials())));
    }
    for (const v1::GenerateRequest& request : requests_) {
      undisturbed_.push_back(Generate(*routers_[0], request));
      if (!undisturbed_.back().status.ok()) return absl::InternalError(undisturbed_.back().status.error_message());
    }
    end_ = Clock::Real()->Now() + options_.duration;
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.streams; ++i) threads.emplace_back([this, i] { Client(i); });
    threads.emplace_back([this] { Strike("prefill", options_.prefill); });
    threads.emplace_back([this] { Strike("decode", options_.decode); });
    threads.emplace_back([this] { Strike("router", options_.routers); });
    for (std::thread& thread : threads) thread.join();
    report_.idle_at_end = cluster_.WaitReady().ok() && cluster_.WaitUntilIdle();
    if (!report_.idle_at_end) report_.first_problem += " not idle at the end: " + cluster_.Describe();
    AttributeGaps();
    return report_;
  }

 private:
  struct Span {
    std::string kind;  // of the fault; empty for gaps
    absl::Duration begin, end;
  };

  bool Over() const { return Clock::Real()->Now() >= end_; }

  void Client(int number) {
    std::mt19937_64 random(options_.seed * 1000 + number);
    while (!Over()) {
      const size_t which = random() % requests_.size();
      std::vector<v1::GenerationService::Stub*> order;
      for (const auto& stub : routers_) order.push_back(stub.get());
      std::rotate(order.begin(), order.begin() + random() % order.size(), order.end());
      absl::Duration last = Clock::Real()->Now();
      std::vector<Span> gaps;
      size_t tokens = 0;
      const AfterEvent note_gap = [&](const Stream& stream) {
        if (stream.tokens.size() == tokens) return;
        const absl::Duration now = Clock::Real()->Now();
        if (tokens > 0) gaps.push_back({"", last, now});
        tokens = stream.tokens.size();
        last = now;
      };
      int resumed = 0;
      const Stream stream = GenerateResuming(order, requests_[which], kClientPatience, note_gap, &resumed);
      std::lock_guard lock(mutex_);
      ++report_.streams;
      report_.tokens += stream.tokens.size();
      report_.attempts += stream.finished.attempts();
      report_.replans += stream.finished.replans();
      report_.resumed += resumed;
      gaps_.insert(gaps_.end(), gaps.begin(), gaps.end());
      if (!stream.status.ok()) {
        ++report_.lost;
        Problem(absl::StrCat("request ", which, " ended with ", stream.status.error_code(), ": ",
                             stream.status.error_message()));
      } else if (!Equal(stream, undisturbed_[which])) {
        ++report_.wrong;
        Problem(absl::StrCat("request ", which, " gave \"", stream.text, "\" instead of \"", undisturbed_[which].text,
                             "\""));
      }
    }
  }

  // Strikes one process of the role at a time, and waits until it is back.
  void Strike(const std::string& role, int count) {
    std::mt19937_64 random(options_.seed * 77 + role.size());
    const auto between = [&](int low_ms, int high_ms) {
      return absl::Milliseconds(low_ms + static_cast<int>(random() % (high_ms - low_ms)));
    };
    while (true) {
      absl::SleepFor(between(500, 2500));
      if (Over()) return;
      const std::string name = absl::StrCat(role, "-", 1 + random() % count);
      const bool kill = random() % 2 == 0;
      Span fault{absl::StrCat(kill ? "kill " : "suspend ", role), Clock::Real()->Now(), {}};
      if (kill) {
        cluster_.process(name).Signal(SIGKILL);
        absl::SleepFor(between(0, 1500));
        const absl::Status restarted = cluster_.Restart(name);
        std::lock_guard lock(mutex_);
        if (!restarted.ok()) Problem(absl::StrCat(name, " does not come back: ", restarted.ToString()));
      } else {
        cluster_.process(name).Signal(SIGSTOP);
        absl::SleepFor(between(100, 8000));
        cluster_.process(name).Signal(SIGCONT);
      }
      WaitUntil([&] { return Ready(name); });
      fault.end = Clock::Real()->Now();
      std::lock_guard lock(mutex_);
      faults_.push_back(fault);
    }
  }

  // Whether every router that answers sees the worker ready. A router is ready when it listens.
  bool Ready(const std::string& name) {
    if (name.rfind("router", 0) == 0) return true;
    bool seen = false;
    for (const auto& router : routers_) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
      v1::GetStatusResponse status;
      if (!router->GetStatus(&context, v1::GetStatusRequest(), &status).ok()) continue;
      for (const v1::WorkerStatus& worker : status.workers()) {
        if (worker.address() != cluster_.address(name)) continue;
        if (!worker.ready()) return false;
        seen = true;
      }
    }
    return seen;
  }

  void Problem(const std::string& what) {
    if (report_.first_problem.empty()) report_.first_problem = what;
  }

  void AttributeGaps() {
    for (const Span& fault : faults_) {
      ChaosReport::Fault& total = report_.faults[fault.kind];
      ++total.count;
      for (const Span& gap : gaps_) {
        if (gap.begin < fault.end && gap.end > fault.begin) {
          total.longest_gap = std::max(total.longest_gap, gap.end - gap.begin);
        }
      }
    }
  }

  const ChaosOptions options_;
  const std::vector<v1::GenerateRequest> requests_;
  Cluster cluster_;
  std::vector<std::unique_ptr<v1::GenerationService::Stub>> routers_;
  std::vector<Stream> undisturbed_;  // by request
  absl::Duration end_;

  std::mutex mutex_;  // guards what follows
  ChaosReport report_;
  std::vector<Span> gaps_, faults_;
};

}  // namespace

std::string ChaosReport::Text() const {
  std::string text = absl::StrFormat(
      "%d streams, %d tokens: %d wrong, %d lost; %d attempts, %d re-plans, %d resumed at another router; %s\n", streams,
      tokens, wrong, lost, attempts, replans, resumed,
      idle_at_end ? "no session and no referenced block is left" : "NOT idle at the end");
  for (const auto& [kind, fault] : faults) {
    absl::StrAppendFormat(&text, "  %-16s %4d times, longest token gap %6.0f ms\n", kind, fault.count,
                          absl::ToDoubleMilliseconds(fault.longest_gap));
  }
  if (!first_problem.empty()) absl::StrAppend(&text, "first problem: ", first_problem, "\n");
  return text;
}

absl::StatusOr<ChaosReport> RunChaos(const ChaosOptions& options) { return Chaos(options).Run(); }

}  // namespace kvrelay::e2e
