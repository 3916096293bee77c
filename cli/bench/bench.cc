// kvrelay bench.
#include <algorithm>
#include <fstream>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "cli/bench/load_run.h"
#include "cli/bench/report.h"
#include "cli/bench/workload.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/json.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_mapping.h"

namespace kvrelay::cli {
namespace {

constexpr uint64_t kDefaultRequests = 100;

bench::Objectives ObjectivesOf(const BenchOptions& o) {
  const auto limit = [](double ms) { return ms > 0 ? absl::Milliseconds(ms) : absl::InfiniteDuration(); };
  return {.ttft = limit(o.slo_ttft_ms), .tpot = limit(o.slo_tpot_ms), .itl = limit(o.slo_itl_ms)};
}

absl::StatusOr<bench::WorkloadOptions> WorkloadOf(const Options& options) {
  const BenchOptions& o = options.bench;
  bench::WorkloadOptions workload = {.rate = o.rate,
                                     .prompt_tokens = o.prompt_tokens,
                                     .prompt_sigma = o.prompt_sigma,
                                     .output_tokens = o.output_tokens,
                                     .output_sigma = o.output_sigma,
                                     .text = o.text,
                                     .seed = options.generation.seed.value_or(0)};
  if (!o.file.empty()) {
    KV_ASSIGN_OR_RETURN(workload.items, bench::ReadItems(o.file));
    if (workload.items[0].has_arrival_s() && (o.rate > 0 || o.concurrency > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat(o.file, " tells when requests arrive: leave out --rate and --concurrency"));
    }
  }
  workload.base.set_model(options.generation.model);
  workload.base.set_execution(options.generation.execution);
  workload.base.set_ignore_eos(!o.stop_at_eos);
  return workload;
}

bench::LoadLimits LimitsOf(const BenchOptions& o, const std::vector<kvrelay::bench::v1::Item>& items) {
  const bool told = !items.empty() && items[0].has_arrival_s();
  bench::LoadLimits limits;
  if (o.rate == 0 && !told) limits.concurrency = std::max(o.concurrency, 1u);
  if (o.duration_s > 0) limits.duration = absl::Seconds(o.duration_s);
  limits.requests = o.requests;
  // A duration alone is the end, unless a file ends before.
  if (limits.requests == 0) limits.requests = o.duration_s > 0 ? UINT64_MAX : kDefaultRequests;
  if (!items.empty() && (o.requests == 0 || told)) {
    limits.requests = std::min<uint64_t>(o.requests > 0 ? o.requests : UINT64_MAX, items.size());
  }
  return limits;
}

absl::Status WriteRecords(const std::string& path, const std::vector<bench::RequestRecord>& records,
                          const bench::Objectives& objectives) {
  std::ofstream file(path);
  for (const bench::RequestRecord& record : records) file << ToJsonLine(bench::ToProto(record, objectives));
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat(path, " could not be written"));
  return absl::OkStatus();
}

}  // namespace

int RunBench(const Options& options, Client* client, const Console& console) {
  absl::StatusOr<bench::WorkloadOptions> workload_options = WorkloadOf(options);
  if (!workload_options.ok()) {
    return ReportUsage(std::string(workload_options.status().message()), "See kvrelay bench --help.", console);
  }
  v1::GetModelRequest asked;
  asked.set_model(options.generation.model);
  v1::GetModelResponse model;
  CallEnd end = client->Call(&Stub::GetModel, asked, &model);
  if (end.ok()) end.status = rpc::ToGrpc(bench::Workload::Check(model));
  if (!end.ok()) return ReportEnd(*client, end, console);
  const bench::LoadLimits limits = LimitsOf(options.bench, workload_options->items);
  bench::Workload workload(*std::move(workload_options), model);
  bench::RunResult result;
  bool interrupted;
  {
    Interrupt::Scope scope(client->interrupt());
    result = bench::LoadRun(client, &workload, limits, Clock::Real()).Run([&scope] { return scope.cancelled(); });
    interrupted = scope.cancelled();
  }
  const bench::Objectives objectives = ObjectivesOf(options.bench);
  const kvrelay::bench::v1::Report report = bench::MakeReport(result, objectives);
  if (options.json) {
    console.out << ToJsonLine(report) << std::flush;
  } else {
    bench::PrintReport(report, console.out);
    console.out << std::flush;
  }
  if (!options.bench.records.empty()) {
    const absl::Status written = WriteRecords(options.bench.records, result.records, objectives);
    if (!written.ok()) return ReportUsage(std::string(written.message()), "See --records.", console);
  }
  if (interrupted) return kExitInterrupted;
  const auto failed = std::find_if_not(result.records.begin(), result.records.end(),
                                       [](const bench::RequestRecord& record) { return record.ok(); });
  return failed == result.records.end() ? kExitOk : ExitCode(failed->code);
}

}  // namespace kvrelay::cli
