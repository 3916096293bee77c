#include "tests/e2e/soak.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"

namespace kvrelay::e2e {
namespace {

// Resident memory without the KV pool, whose pages become resident when a block is first written. It is the one mapping
// of this size.
int RssMib(pid_t pid) {
  constexpr int64_t kPoolKib = 256 << 10;
  std::ifstream mappings(absl::StrCat("/proc/", pid, "/smaps"));
  int64_t size = 0, value = 0, resident = 0;
  for (std::string line, name; std::getline(mappings, line);) {
    if (!(std::istringstream(line) >> name >> value)) continue;
    if (name == "Size:") size = value;
    if (name == "Rss:" && size < kPoolKib) resident += value;
  }
  return static_cast<int>(resident >> 10);
}

class Soak {
 public:
  explicit Soak(const SoakOptions& options) : options_(options) {}

  absl::StatusOr<SoakReport> Run(const std::function<void(const SoakSample&)>& on_sample) {
    KV_RETURN_IF_ERROR(cluster_.StartAll(1, 1));
    std::vector<SoakSample> samples;
    for (int phase = 0; phase <= options_.phases; ++phase) {
      if (phase > 0) RunPhase(phase);
      KV_ASSIGN_OR_RETURN(SoakSample sample, Measure());
      samples.push_back(sample);
      on_sample(sample);
    }
    return Judge(samples);
  }

 private:
  // The part of `all` that belongs to this phase.
  int Share(int all, int phase) const {
    return static_cast<int>(int64_t{all} * phase / options_.phases - int64_t{all} * (phase - 1) / options_.phases);
  }

  void RunPhase(int phase) {
    std::mt19937_64 random(options_.seed * 1000 + phase);
    std::vector<bool> cancels(Share(options_.finished, phase), false);
    cancels.resize(cancels.size() + Share(options_.cancelled, phase), true);
    std::shuffle(cancels.begin(), cancels.end(), random);
    std::atomic<size_t> next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.streams; ++i) {
      threads.emplace_back([&] {
        for (size_t n = next++; n < cancels.size(); n = next++) RunOne(n, cancels[n]);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Prompts of 5 tokens, every sixteenth of about 100; a cancel comes after 0 to 4 events.
  void RunOne(size_t number, bool cancel) {
    std::string text = "The capital of France is";
    for (int i = 0; i < 8 && number % 16 == 0; ++i) text += " a city that people like to visit in the spring, and";
    v1::GenerateRequest request = TextRequest(text, cancel ? 500 : 1 + number % 6);
    request.set_ignore_eos(true);
    grpc::ClientContext context;
    const auto reader = cluster_.stub().Generate(&context, request);
    v1::GenerateResponse response;
    const size_t events = cancel ? number % 5 : SIZE_MAX;
    for (size_t n = 0; n < events && reader->Read(&response); ++n) continue;
    if (cancel) context.TryCancel();
    while (reader->Read(&response)) continue;
    const grpc::Status status = reader->Finish();
    std::lock_guard lock(mutex_);
    if (!cancel && status.ok()) {
      ++counts_.finished;
    } else if (cancel && status.error_code() == grpc::StatusCode::CANCELLED) {
      ++counts_.cancelled;
    } else {
      ++counts_.failed;
    }
  }

  absl::StatusOr<SoakSample> Measure() {
    cluster_.WaitUntilIdle();  // what is then still there is in the sample
    KV_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, cluster_.Status());
    SoakSample sample = counts_;
    for (const v1::WorkerStatus& worker : status.workers()) sample.referenced_blocks += worker.kv_blocks_referenced();
    for (const char* role : {"prefill", "decode", "router"}) {
      for (const std::string& name : cluster_.names(role)) sample.rss_mib[name] = RssMib(cluster_.process(name).pid());
    }
    return sample;
  }

  SoakReport Judge(const std::vector<SoakSample>& samples) const {
    SoakReport report;
    const SoakSample& end = samples.back();
    report.requests_ended_well =
        end.failed == 0 && end.finished == options_.finished && end.cancelled == options_.cancelled;
    report.blocks_flat = std::all_of(samples.begin(), samples.end(),
                                     [](const SoakSample& sample) { return sample.referenced_blocks == 0; });
    for (const auto& [name, rss_mib] : end.rss_mib) {
      const int growth = rss_mib - samples[options_.warm_up].rss_mib.at(name);
      report.largest_growth_mib = std::max(report.largest_growth_mib, growth);
    }
    report.memory_flat = report.largest_growth_mib <= kSoakGrowthMib;
    return report;
  }

  const SoakOptions options_;
  Cluster cluster_;
  std::mutex mutex_;
  SoakSample counts_;  // guarded by mutex_; only the counts are used
};

}  // namespace

absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options,
                                   const std::function<void(const SoakSample&)>& on_sample) {
  return Soak(options).Run(on_sample);
}

}  // namespace kvrelay::e2e
