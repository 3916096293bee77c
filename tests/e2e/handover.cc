#include "tests/e2e/handover.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/duration.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/requests.h"

namespace kvrelay::e2e {
namespace {

// A prompt of exactly `length` token ids.
v1::GenerateRequest Request(int length, uint32_t max_tokens, int salt) {
  v1::GenerateRequest request = TextRequest("", max_tokens);
  for (int i = 0; i < length; ++i)
    request.mutable_token_ids()->add_ids(1000 + static_cast<uint32_t>(i * 37 + salt * 101) % 40000);
  request.set_ignore_eos(true);
  request.set_execution(v1::EXECUTION_SPLIT);
  return request;
}

double Percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * (values.size() - 1) + 0.5)];
}

// User and system time of a process so far, in seconds.
double CpuSeconds(pid_t pid) {
  std::ostringstream stat;
  stat << std::ifstream(absl::StrCat("/proc/", pid, "/stat")).rdbuf();
  const std::string text = stat.str();
  std::vector<std::string> fields;
  std::string field;
  for (const char c : text.substr(text.rfind(')') + 2)) {
    if (c == ' ') {
      fields.push_back(field);
      field.clear();
    } else {
      field += c;
    }
  }
  return (std::stod(fields.at(11)) + std::stod(fields.at(12))) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Tails {
  std::vector<double> tail_ms, hidden_share, transfer_ms, prefill_ms;
  uint64_t bytes = 0;
};

// `salt`: of the next prompt; no prompt comes twice, for its beginning would be reused.
absl::StatusOr<Tails> MeasureTails(Cluster& cluster, int length, int repeats, int& salt) {
  Tails tails;
  for (int i = -2; i < repeats; ++i) {  // the first two warm up
    const Stream stream = Generate(cluster.stub(), Request(length, 2, salt++));
    if (!stream.status.ok()) return absl::InternalError(stream.status.error_message());
    if (i < 0) continue;
    const v1::Timings& t = stream.finished.timings();
    const double transfer = absl::ToDoubleMilliseconds(rpc::FromProto(t.transfer()));
    const double hidden = absl::ToDoubleMilliseconds(rpc::FromProto(t.transfer_hidden()));
    tails.tail_ms.push_back(transfer - hidden);
    tails.transfer_ms.push_back(transfer);
    tails.hidden_share.push_back(hidden / transfer);
    tails.prefill_ms.push_back(absl::ToDoubleMilliseconds(rpc::FromProto(t.prefill())));
  }
  return tails;
}

// CPU time of the prefill worker per prompt, with and without a handoff: max_tokens 1 ships nothing.
absl::StatusOr<double> CpuPerPrompt(Cluster& cluster, int length, uint32_t max_tokens, int repeats, int& salt) {
  const pid_t pid = cluster.process("prefill-1").pid();
  const double before = CpuSeconds(pid);
  for (int i = 0; i < repeats; ++i) {
    const Stream stream = Generate(cluster.stub(), Request(length, max_tokens, salt++));
    if (!stream.status.ok()) return absl::InternalError(stream.status.error_message());
  }
  return (CpuSeconds(pid) - before) / repeats;
}

absl::StatusOr<std::string> ReportTails(const HandoverOptions& options) {
  Cluster cluster;
  KV_RETURN_IF_ERROR(cluster.StartAll(1, 1));
  std::string report = absl::StrFormat("%-8s%12s%12s%12s%12s%14s%18s\n", "prompt", "prefill ms", "transfer ms",
                                       "tail p50", "tail p95", "time hidden", "link CPU, sender");
  int salt = 0;
  for (const int length : {512, 2048}) {
    KV_ASSIGN_OR_RETURN(const Tails tails, MeasureTails(cluster, length, options.repeats, salt));
    const int cpu_repeats = std::max(3, options.repeats / 5);
    KV_ASSIGN_OR_RETURN(const double with, CpuPerPrompt(cluster, length, 2, cpu_repeats, salt));
    KV_ASSIGN_OR_RETURN(const double without, CpuPerPrompt(cluster, length, 1, cpu_repeats, salt));
    absl::StrAppendFormat(&report, "%-8d%12.1f%12.1f%9.2f ms%9.2f ms%13.1f%%%17.1f%%\n", length,
                          Percentile(tails.prefill_ms, 0.5), Percentile(tails.transfer_ms, 0.5),
                          Percentile(tails.tail_ms, 0.5), Percentile(tails.tail_ms, 0.95),
                          100 * Percentile(tails.hidden_share, 0.5), 100 * (with - without) / without);
  }
  return report;
}

// One client of the drain.
struct Live {
  Stream stream;
  std::vector<absl::Duration> arrivals;  // of its tokens
};

void RunClients(Cluster& cluster, const HandoverOptions& options, uint32_t tokens, std::vector<Live>& clients,
                const std::function<void()>& when_all_run) {
  std::atomic<size_t> running = 0;
  std::atomic<bool> told = false;
  std::vector<std::thread> threads;
  std::thread teller;  // so that no client reads late
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      clients[i].stream = Generate(cluster.stub(), Request(options.drain_prompt, tokens, static_cast<int>(i)),
                                   [&](const Stream& stream) {
                                     if (stream.tokens.size() <= clients[i].arrivals.size()) return;
                                     clients[i].arrivals.push_back(Clock::Real()->Now());
                                     if (stream.tokens.size() == 8) ++running;
                                     if (running == clients.size() && !told.exchange(true))
                                       teller = std::thread(when_all_run);
                                   });
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (teller.joinable()) teller.join();
}

absl::Status CheckMoved(const std::vector<Live>& moved, const std::vector<Live>& undisturbed) {
  for (size_t i = 0; i < moved.size(); ++i) {
    const Stream& stream = moved[i].stream;
    if (!stream.status.ok()) return absl::InternalError(stream.status.error_message());
    if (!SameOutput(stream, undisturbed[i].stream)) return absl::DataLossError(absl::StrCat("stream ", i, " differs"));
    if (stream.finished.moves() != 1 || stream.finished.replans() != 0 || stream.positions.back().recomputed() != 0)
      return absl::InternalError(absl::StrCat("stream ", i, " has ", stream.finished.moves(), " moves, ",
                                              stream.finished.replans(), " replans and ",
                                              stream.positions.back().recomputed(), " positions recomputed"));
  }
  return absl::OkStatus();
}

// The longest gap after the signal, over the stream's usual one before it.
std::vector<double> AddedGaps(const std::vector<Live>& clients, absl::Duration signal) {
  std::vector<double> added;
  for (const Live& live : clients) {
    std::vector<double> before;
    double longest = 0;
    for (size_t i = 1; i < live.arrivals.size(); ++i) {
      const double gap = absl::ToDoubleMilliseconds(live.arrivals[i] - live.arrivals[i - 1]);
      if (live.arrivals[i] < signal) {
        if (i > 4) before.push_back(gap);
      } else {
        longest = std::max(longest, gap);
      }
    }
    if (!before.empty()) added.push_back(longest - Percentile(before, 0.5));
  }
  return added;
}

absl::StatusOr<std::string> ReportDrain(const HandoverOptions& options) {
  constexpr uint32_t kTokens = 400;  // the move begins seconds after all have
  Cluster cluster;
  KV_RETURN_IF_ERROR(cluster.StartWorker("prefill", "prefill-1"));
  for (const char* name : {"decode-1", "decode-2"})
    KV_RETURN_IF_ERROR(cluster.StartWorker("decode", name, {"--kv-pool-mib", "1024"}));
  KV_RETURN_IF_ERROR(cluster.StartRouter());
  KV_RETURN_IF_ERROR(cluster.WaitReady());
  std::vector<Live> undisturbed(options.streams), moved(options.streams);
  // decode-2 is suspended until all streams run on decode-1.
  cluster.process("decode-2").Signal(SIGSTOP);
  const bool alone = cluster.WaitForWorkers(
      [](const v1::WorkerStatus& worker) { return worker.instance() != "decode-2" || !worker.ready(); });
  if (!alone) return absl::InternalError("decode-2 does not count as suspended");
  RunClients(cluster, options, kTokens, undisturbed, [] {});
  absl::Duration signal = absl::InfiniteDuration();
  RunClients(cluster, options, kTokens, moved, [&] {
    cluster.process("decode-2").Signal(SIGCONT);
    cluster.WaitForWorkers([](const v1::WorkerStatus& worker) { return worker.ready(); });
    signal = Clock::Real()->Now();
    cluster.process("decode-1").Signal(SIGTERM);
  });
  KV_RETURN_IF_ERROR(CheckMoved(moved, undisturbed));
  const std::vector<double> added = AddedGaps(moved, signal);
  const std::vector<double> noise = AddedGaps(undisturbed, undisturbed[0].arrivals[kTokens / 2]);
  return absl::StrFormat(
      "drain: %d streams of %d or more positions moved, byte-equal, 0 positions recomputed\n"
      "added gap p50 %.1f ms, p95 %.1f ms (longest gap of an undisturbed stream's second half over its median: p50 "
      "%.1f "
      "ms, p95 %.1f ms)\n",
      options.streams, options.drain_prompt, Percentile(added, 0.5), Percentile(added, 0.95), Percentile(noise, 0.5),
      Percentile(noise, 0.95));
}

}  // namespace

absl::StatusOr<std::string> MeasureHandover(const HandoverOptions& options) {
  KV_ASSIGN_OR_RETURN(std::string report, ReportTails(options));
  KV_ASSIGN_OR_RETURN(const std::string drain, ReportDrain(options));
  return absl::StrCat(report, drain);
}

}  // namespace kvrelay::e2e
