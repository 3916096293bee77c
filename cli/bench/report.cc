#include "cli/bench/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "cli/exit_code.h"
#include "common/rpc/duration.h"

namespace kvrelay::cli::bench {
namespace {

using kvrelay::bench::v1::Distribution;
using kvrelay::bench::v1::Failures;
using kvrelay::bench::v1::Record;
using kvrelay::bench::v1::Report;

double Ms(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

// REQUIRES: not empty.
double Percentile(const std::vector<double>& sorted, double share) {
  const double rank = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], rank - static_cast<double>(below));
}

// The values of each request in columns of their own.
struct Columns {
  std::vector<double> prompt, output, ttft, itl, tpot, e2e;
  std::vector<double> late, router_queue, prefill_queue, prefill, between, outside, transfer;

  void Add(const RequestRecord& record) {
    prompt.push_back(record.prompt_tokens);
    output.push_back(static_cast<double>(record.tokens.size()));
    if (record.tokens.empty()) return;
    ttft.push_back(Ms(record.Ttft()));
    e2e.push_back(Ms(record.E2e()));
    for (const absl::Duration gap : record.Gaps()) itl.push_back(Ms(gap));
    if (const auto gap = record.Tpot()) tpot.push_back(Ms(*gap));
    AddPhases(record);
  }

  void AddPhases(const RequestRecord& record) {
    const v1::Timings& times = record.timings;
    const absl::Duration at_router = rpc::FromProto(times.first_token());
    absl::Duration known;
    const auto add = [&known](std::vector<double>& column, const google::protobuf::Duration& time) {
      known += rpc::FromProto(time);
      column.push_back(Ms(rpc::FromProto(time)));
    };
    add(router_queue, times.router_queue());
    add(prefill_queue, times.prefill_queue());
    add(prefill, times.prefill());
    late.push_back(Ms(record.Late()));
    between.push_back(Ms(at_router - known));
    outside.push_back(Ms(record.Ttft() - record.Late() - at_router));
    transfer.push_back(Ms(rpc::FromProto(times.transfer()) - rpc::FromProto(times.transfer_hidden())));
  }
};

void SetPhases(Columns columns, kvrelay::bench::v1::Phases* phases) {
  *phases->mutable_late_ms() = Summarize(std::move(columns.late));
  *phases->mutable_router_queue_ms() = Summarize(std::move(columns.router_queue));
  *phases->mutable_prefill_queue_ms() = Summarize(std::move(columns.prefill_queue));
  *phases->mutable_prefill_ms() = Summarize(std::move(columns.prefill));
  *phases->mutable_between_ms() = Summarize(std::move(columns.between));
  *phases->mutable_outside_ms() = Summarize(std::move(columns.outside));
  *phases->mutable_transfer_not_hidden_ms() = Summarize(std::move(columns.transfer));
}

void SetFailures(const std::vector<RequestRecord>& records, Report* report) {
  std::map<std::string, Failures*> by_code;
  for (const RequestRecord& record : records) {
    if (record.ok()) continue;
    Failures*& failures = by_code[CodeName(record.code)];
    if (failures == nullptr) {
      failures = report->add_failures();
      failures->set_code(CodeName(record.code));
      failures->set_example(record.error);
    }
    failures->set_count(failures->count() + 1);
  }
}

void SetRates(const RunResult& result, const Objectives& objectives, Report* report) {
  const double seconds = absl::ToDoubleSeconds(result.duration);
  if (seconds <= 0 || result.records.empty()) return;
  double tokens = 0, prompt_tokens = 0, good = 0;
  for (const RequestRecord& record : result.records) {
    tokens += static_cast<double>(record.tokens.size());
    if (record.ok()) prompt_tokens += record.prompt_tokens;
    if (objectives.MetBy(record)) ++good;
  }
  report->set_duration_s(seconds);
  report->set_requests_per_s(report->completed() / seconds);
  report->set_output_tokens_per_s(tokens / seconds);
  report->set_prompt_tokens_per_s(prompt_tokens / seconds);
  if (!objectives.any()) return;
  report->set_goodput_requests_per_s(good / seconds);
  report->set_good_share(good / static_cast<double>(result.records.size()));
}

}  // namespace

std::optional<absl::Duration> RequestRecord::Tpot() const {
  if (tokens.size() < 2) return std::nullopt;
  return (E2e() - Ttft()) / static_cast<int64_t>(tokens.size() - 1);
}

std::vector<absl::Duration> RequestRecord::Gaps() const {
  std::vector<absl::Duration> gaps;
  for (size_t i = 1; i < tokens.size(); ++i) gaps.push_back(tokens[i] - tokens[i - 1]);
  return gaps;
}

bool Objectives::any() const { return std::min({ttft, tpot, itl}) < absl::InfiniteDuration(); }

bool Objectives::MetBy(const RequestRecord& record) const {
  if (!record.ok() || record.tokens.empty() || record.Ttft() > ttft) return false;
  if (record.Tpot().value_or(absl::ZeroDuration()) > tpot) return false;
  const std::vector<absl::Duration> gaps = record.Gaps();
  return std::all_of(gaps.begin(), gaps.end(), [this](absl::Duration gap) { return gap <= itl; });
}

Distribution Summarize(std::vector<double> values) {
  Distribution summary;
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  summary.set_count(static_cast<uint32_t>(values.size()));
  summary.set_mean(std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()));
  summary.set_p50(Percentile(values, 0.5));
  summary.set_p90(Percentile(values, 0.9));
  summary.set_p95(Percentile(values, 0.95));
  summary.set_p99(Percentile(values, 0.99));
  summary.set_max(values.back());
  return summary;
}

Report MakeReport(const RunResult& result, const Objectives& objectives) {
  Report report;
  Columns columns;
  std::vector<double> late;
  for (const RequestRecord& record : result.records) {
    late.push_back(Ms(record.Late()));
    if (!record.ok()) continue;
    report.set_completed(report.completed() + 1);
    columns.Add(record);
  }
  report.set_requests(static_cast<uint32_t>(result.records.size()));
  report.set_in_flight_max(result.in_flight_max);
  SetFailures(result.records, &report);
  SetRates(result, objectives, &report);
  *report.mutable_prompt_tokens() = Summarize(columns.prompt);
  *report.mutable_output_tokens() = Summarize(columns.output);
  *report.mutable_ttft_ms() = Summarize(columns.ttft);
  *report.mutable_itl_ms() = Summarize(columns.itl);
  *report.mutable_tpot_ms() = Summarize(columns.tpot);
  *report.mutable_e2e_ms() = Summarize(columns.e2e);
  SetPhases(std::move(columns), report.mutable_ttft_phases());
  *report.mutable_late_ms() = Summarize(std::move(late));
  report.set_fell_behind(report.late_ms().p99() > Ms(kLateAllowed));
  return report;
}

Record ToProto(const RequestRecord& record, const Objectives& objectives) {
  Record proto;
  proto.set_due_s(absl::ToDoubleSeconds(record.due));
  proto.set_late_ms(Ms(record.Late()));
  proto.set_code(CodeName(record.code));
  proto.set_error(record.error);
  proto.set_prompt_tokens(record.prompt_tokens);
  if (!record.tokens.empty()) proto.set_ttft_ms(Ms(record.Ttft()));
  for (const absl::Duration gap : record.Gaps()) proto.add_itl_ms(static_cast<float>(Ms(gap)));
  proto.set_good(objectives.MetBy(record));
  return proto;
}

}  // namespace kvrelay::cli::bench
